"""The optimizer that the README shows is a good one."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

from clients.checks.findings import check_spec
from clients.testing import World, check_protocol, simulate

EXAMPLE = Path(__file__).parents[3] / "examples" / "optimizer" / "climber.py"


def climber() -> Any:
    spec = importlib.util.spec_from_file_location("climber", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Climber


def test_it_keeps_to_the_protocol() -> None:
    check_protocol(climber())


def test_it_keeps_to_the_protocol_with_other_options_and_factors() -> None:
    check_protocol(climber(), request={"optimizer": {"options": {"step": 0.01}}})
    factors = {"warmth": {"value": 3.5, "change": "structured", "type": "number", "min": 2, "max": 5}, "unit": "degrees"}
    check_protocol(climber(), request={"configuration": factors})


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


async def test_its_spec_has_nothing_wrong_and_a_wrong_option_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    found = await check_spec(EXAMPLE.parent / "spec.yaml", endpoints=False)
    assert found.findings == []
    for name in ("climber.py", "spam.py", "emails.jsonl"):
        shutil.copy(EXAMPLE.parent / name, tmp_path)
    (tmp_path / "spec.yaml").write_text((EXAMPLE.parent / "spec.yaml").read_text().replace("{step: 0.3}", "{stop: 0.3}"))
    [wrong] = (await check_spec(tmp_path / "spec.yaml", endpoints=False)).findings
    assert wrong.line == 10
    assert "optimizer.options do not fit, TypeError: got an unexpected keyword argument 'stop'" in wrong.message


def test_it_is_as_short_as_promised() -> None:
    code = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(code) <= 30
