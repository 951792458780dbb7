"""A soak of a few seconds: it harms, it ends, it finds nothing, and it leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.soak.soak_designs import DESIGNS
from tests.system.soak.soak_report import violations_of
from tests.system.soak.soak_session import Plan, soak

SHORT = ("kill worker", "kill postgres", "kill temporal", "cut store", "cut temporal", "throttle", "upgrade")
CHEAP = tuple(design for design in DESIGNS if design.name in {"refine-loop", "refine-http", "refine-samples"})


@pytest.mark.timeout(300)
async def test_a_short_soak_finds_nothing(tmp_path: Path) -> None:
    plan = Plan(tmp_path / "soak", minutes=0.15, seed=2, workers=2, at_once=2, designs=CHEAP, faults=SHORT, fewest_faults=4)
    found = await soak(plan)
    assert found.witnessed == []
    assert violations_of(found.history) == []
    assert len(found.history.faults) >= 4
    assert len(found.history.tables["runs"]) >= 3
