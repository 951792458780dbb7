"""A run that has a prompt for sorting tickets rewritten by the simulated model, and everything needed to look at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients import demo

TICKETS = Path(demo.__file__).parent / "example" / "tickets.jsonl"
TRIAGE, REFLECTOR = "simulated-triage-small", "simulated-reflector"
ROUNDS, CANDIDATES, SAMPLES = 3, 3, 30
SEEDED = {"seed": 5}
"""The simulated model answers the same request the same way."""


def spec(base_url: str, **parts: Any) -> dict[str, Any]:
    """Sorting tickets, rewritten by `meta_prompt`; keyword arguments replace parts of the spec."""
    stored = [json.loads(line) for line in TICKETS.read_text(encoding="utf-8").splitlines()][:SAMPLES]
    items = [{"id": f"t{n}", "input": one["input"], "expected": one["expected"]} for n, one in enumerate(stored)]
    messages = [
        {"role": "system", "content": "{{factors.prompt}}\n{{factors.manners}}"},
        {"role": "user", "content": "{{input.ticket}}"},
    ]
    return {
        "name": "rewriting",
        "configuration": {
            "prompt": {"value": "Sort the ticket.", "change": "text", "max_length": 2000},
            "manners": {"value": "Be polite.", "change": "text", "max_length": 500},
        },
        "target": {"kind": "chat", "model": TRIAGE, "base_url": base_url, "messages": messages, "parameters": SEEDED},
        "dataset": {"items": items, "splits": "none"},
        "scorers": [{"kind": "exact", "name": "label"}],
        "objective": {"metric": "label"},
        "optimizer": {
            "name": "meta_prompt",
            "proposer": {"kind": "model", "model": REFLECTOR, "base_url": base_url, "parameters": SEEDED},
            "candidates_per_round": CANDIDATES,
            "hall_of_fame": 3,
        },
        "stop": {"max_rounds": ROUNDS, "no_improvement": 0},
        "execution": {"concurrent_samples": 8},
        "prices": {TRIAGE: {"input": 1, "output": 2}, REFLECTOR: {"input": 3, "output": 6}},
        "seed": 7,
    } | parts
