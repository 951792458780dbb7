"""The optimizer that the README shows is a good one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from clients.optimizer_kit import World, check_protocol, simulate

EXAMPLE = Path(__file__).parents[2] / "examples" / "optimizer" / "climber.py"


def climber() -> Any:
    spec = importlib.util.spec_from_file_location("climber", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Climber


def test_it_keeps_to_the_protocol() -> None:
    check_protocol(climber())


def test_it_climbs_and_stops_by_itself() -> None:
    request = {
        "configuration": {
            name: {"value": 0.1, "change": "structured", "type": "number", "min": 0, "max": 1} for name in ("x", "y")
        },
        "optimizer": {"candidates_per_round": 4, "options": {"smallest": 0.01}},
        "stop": {"max_rounds": 500, "no_improvement": 0},
        "seed": 7,
    }
    world = World(target=lambda c, sample, _: 1 - (c["x"] - 0.8) ** 2 - (c["y"] - 0.3) ** 2, samples=[0])
    run = simulate(request, world, optimizer=climber())
    assert run.message == "The steps became too small"
    assert run.best_score is not None and run.best_score > 0.999


def test_it_is_as_short_as_promised() -> None:
    code = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(code) <= 40
