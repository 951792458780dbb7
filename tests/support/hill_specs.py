"""Runs over a deterministic hill: the higher, the better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ENDLESS = {"max_rounds": 100, "no_improvement": 0}
"""Stop rules of a run that something else must end."""


def split_items() -> dict[str, Any]:
    items = [{"id": f"s{n}", "input": n, "tags": ["even" if n % 2 == 0 else "odd"]} for n in range(12)]
    return {"items": items, "splits": {"validation": 0.5, "test": 0.5}}


def hill_spec(**parts: Any) -> dict[str, Any]:
    """A small run over a deterministic target; keyword arguments replace parts of it."""
    return {
        "name": "hill",
        "configuration": {
            "x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10},
            "unit": "metre",
        },
        "target": {"kind": "python", "ref": "plugged:hill"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(8)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
        "stop": {"max_rounds": 4, "no_improvement": 0},
        "seed": 7,
    } | parts


def gated_spec(gate: Path, **parts: Any) -> dict[str, Any]:
    """A run whose answers wait until the file is there."""
    return hill_spec(
        configuration={
            "x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10},
            "gate": str(gate),
        },
        target={"kind": "python", "ref": "plugged:waits_for_a_file"},
        **parts,
    )
