"""A prompt with a section of every kind, and requests that are about it."""

from __future__ import annotations

from typing import Any

from ratchet.prompts import Overrides, PromptTemplate, effective_hash
from tests.support.spec_building import spec
from workflows.model.spec.prompt import PromptSnapshot
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.prompt_factors import with_prompt

TEMPLATE = PromptTemplate.model_validate(
    {
        "prompt": "support/triage",
        "sections": [
            {"path": "role", "body": "You sort tickets of {{input.shop}}.", "accepts_overrides": False},
            {"path": "rules/labels", "body": "Be {{factors.tone}}. See {{factors.role}}"},
            {"kind": "example", "path": "examples", "examples": [{"input": "Late", "output": "shipping"}]},
            {"kind": "tool", "path": "tools/lookup", "name": "lookup", "description": "Finds an order of {{input.shop}}."},
        ],
        "parameters": {
            "tone": {"type": "choice", "value": "kind", "choices": ["kind", "short"]},
            "temperature": {"type": "number", "value": 0.5, "min": 0, "max": 1},
        },
    }
)
OVERRIDES = Overrides(
    sections={"rules/labels": TEMPLATE.override("rules/labels", "Stay {{factors.tone}}. Read {{factors.role}}")},
    parameters={"temperature": 0.25},
)


def unread(**changes: Any) -> OptimizationRequest:
    """A request that names a prompt which nobody has read yet."""
    parts: dict[str, Any] = {
        "prompt": "support/triage",
        "configuration": {"model": "small"},
        "target": {"kind": "chat", "messages": [{"role": "system", "content": "{{factors.prompt}}"}]},
        "dataset": [{"input": {"shop": "Nile"}, "expected": "2"}],
        "optimizer": {"name": "refine", "proposer": {"kind": "model", "model": "big"}},
    }
    return OptimizationRequest.model_validate(spec(**{**parts, **changes}))


def snapshot(template: PromptTemplate = TEMPLATE, overrides: Overrides | None = OVERRIDES) -> PromptSnapshot:
    return PromptSnapshot(template=template, overlay_hash=effective_hash(template.configuration(overrides)), revision=3)


def read(overrides: Overrides | None = OVERRIDES, **changes: Any) -> OptimizationRequest:
    """The same once the prompt was read, at a tag with overrides of its own."""
    return with_prompt(unread(**changes), snapshot(overrides=overrides), overrides)
