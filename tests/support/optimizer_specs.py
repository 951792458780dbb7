"""Specs of small runs, one for each optimizer that is tested end to end and under kills."""

from __future__ import annotations

from typing import Any

from tests.support.plugins.ruled import OPENING, items

RISK = {"change": "structured", "type": "number", "min": 0, "max": 1}
EVOLVING: dict[str, Any] = {
    "name": "dungeon",
    "configuration": {
        "health_threshold": {"value": 0.3, **RISK},
        "risk_tolerance": {"value": 0.5, **RISK},
        "unit": "points",
    },
    "target": {"kind": "python", "ref": "plugged:dungeon"},
    "dataset": {
        "items": [{"id": f"seed {n}", "input": n} for n in range(60)],
        "splits": {"train": 0.25, "validation": 0.5, "test": 0.25},
    },
    "scorers": [{"kind": "python", "name": "points", "ref": "plugged:points"}],
    "objective": {"metric": "points"},
    "optimizer": {
        "name": "evolve",
        "classifier": "plugged:dungeon_failures",
        "table": [{"failure": "injury", "more_than": 2, "mutation": {"kind": "threshold", "factor": "health_threshold"}}],
        "padding": [{"kind": "risk", "by": -0.25}, {"kind": "risk", "by": 0.25}],
    },
    "seed": 7,
}


EXAMPLES = {"value": [], "change": "structured", "type": "json", "schema": {"type": "array"}}
TEACHING: dict[str, Any] = {
    "name": "teaching",
    "configuration": {"examples": EXAMPLES, "prompt": "Answer."},
    "target": {"kind": "python", "ref": "plugged:pupil"},
    "dataset": {
        "items": [{"id": f"s{n}", "input": n, "expected": f"answer {n % 4}"} for n in range(60)],
        "splits": {"train": 0.4, "validation": 0.3, "test": 0.3},
    },
    "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
    "objective": {"metric": "height"},
    "optimizer": {"name": "few_shot", "pool": 16},
    "stop": {"max_rounds": 10},
    "seed": 7,
}


REFLECTING: dict[str, Any] = {
    "name": "reflecting",
    "configuration": {"prompt": {"value": OPENING, "change": "text"}},
    "target": {"kind": "python", "ref": "ruled:follows_rules"},
    "dataset": {"items": items(60), "splits": {"train": 0.5, "validation": 0.5}},
    "scorers": [{"kind": "python", "name": "right", "ref": "ruled:right"}],
    "objective": {"metric": "right"},
    "optimizer": {"name": "reflect", "proposer": {"kind": "python", "ref": "ruled:reflect"}},
    "stop": {"max_rounds": 100, "no_improvement": 0},
    "budget": {"samples": 300},
    "seed": 7,
}
PUBLISHED = {"name": "gepa", "proposer": {"kind": "python", "ref": "ruled:reflect"}}


BAKING: dict[str, Any] = {
    "name": "baking",
    "configuration": {
        "heat": {"value": 100, "change": "structured", "type": "number", "min": 50, "max": 300},
        "rack": {"value": "top", "change": "structured", "type": "choice", "choices": ["top", "middle", "bottom"]},
        "fan": {"value": False, "change": "structured", "type": "flag"},
        "fan_minutes": {"value": 60, "change": "structured", "type": "integer", "min": 1, "max": 60, "when": {"fan": True}},
        "layers": {"value": ["cheese", "sauce", "dough"], "change": "structured", "type": "order"},
        "recipe": "bake",
    },
    "target": {"kind": "python", "ref": "plugged:oven"},
    "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(4)], "splits": "none"},
    "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
    "objective": {"metric": "height"},
    "optimizer": {"name": "search"},
    "stop": {"max_rounds": 12},
    "seed": 7,
}
