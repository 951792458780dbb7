"""A prompt that is in production with overrides of its own, runs that improve it, and what their targets saw."""

from __future__ import annotations

import itertools
import json
from typing import Any

from ratchet.prompts import Overrides, OverrideStore, PromptTemplate
from tests.support.engines import Engines

_numbers = itertools.count(1)

TEXTS = ("Late again", "A {{factors.model}}", "Grüße ✓")
TICKETS = [{"id": f"s{n}", "input": {"ticket": text}} for n, text in enumerate(TEXTS)]
OVERRIDDEN = "Only one word. Your tone is {{factors.tone}}."


def template() -> PromptTemplate:
    """A prompt that no other test has."""
    return PromptTemplate.model_validate(
        {
            "prompt": f"support/triage-{next(_numbers)}",
            "sections": [
                {"path": "role", "body": "You sort tickets.", "accepts_overrides": False},
                {"path": "answer", "body": "Answer in a {{factors.tone}} tone."},
                {"path": "rules/labels", "body": "Labels: billing, shipping.\n"},
                {"kind": "example", "path": "examples", "examples": [{"input": "Late", "output": "shipping"}]},
                {"kind": "tool", "path": "tools/lookup", "name": "lookup", "description": "Finds an order."},
                {"path": "ticket", "body": "The ticket: {{input.ticket}}"},
            ],
            "parameters": {
                "tone": {"type": "choice", "value": "kind", "choices": ["kind", "calm"]},
                "temperature": {"type": "number", "value": 0.5, "min": 0, "max": 1},
            },
        }
    )


async def in_production(store: OverrideStore, tag: str = "stable") -> tuple[PromptTemplate, Overrides]:
    """A prompt whose tag has overrides already, as after an earlier release."""
    prompt = template()
    overrides = Overrides(sections={"answer": prompt.override("answer", OVERRIDDEN)}, parameters={"tone": "calm"})
    seeded = await store.seed(prompt)
    expected = seeded.revision if tag == "stable" else None
    await store.store(prompt, overrides, tag=tag, expected=expected)
    return prompt, overrides


def over(about: PromptTemplate, answered_by: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """A run that makes a prompt politer."""
    return {
        "name": "polite",
        "prompt": about.name,
        "target": answered_by,
        "dataset": {"items": TICKETS, "splits": "none"},
        "scorers": [{"kind": "python", "name": "polite", "ref": "prompted:politeness"}],
        "objective": {"metric": "polite"},
        "optimizer": {
            "name": "refine",
            "proposer": {"kind": "python", "ref": "prompted:politer"},
            "factors": ["section:rules/labels", "section:answer"],
        },
        "stop": {"max_rounds": 2, "no_improvement": 0},
        "seed": 7,
        **parts,
    }


async def answers(engines: Engines, run_id: str) -> dict[str, dict[str, str]]:
    """By overlay and sample, the prompt that the target saw."""
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT o.config_hash, s.item_id, o.output, o.error FROM outcomes o JOIN samples s USING (item_hash)"
            " WHERE o.run_id = $1 AND s.dataset_id = (SELECT dataset_id FROM runs WHERE run_id = $1)",
            run_id,
        )
    seen: dict[str, dict[str, str]] = {}
    for row in rows:
        assert row["error"] is None, row["error"]
        output = json.loads(row["output"])
        seen.setdefault(row["config_hash"], {})[row["item_id"]] = output if isinstance(output, str) else output["prompt"]
    return seen


async def overlays(engines: Engines, run_id: str) -> dict[str, dict[str, Any]]:
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT config_hash, configuration FROM candidates JOIN overlays USING (config_hash) WHERE run_id = $1", run_id
        )
    return {row["config_hash"]: json.loads(row["configuration"]) for row in rows}


PYTHON = {"kind": "python", "ref": "prompted:tells_its_prompt"}
