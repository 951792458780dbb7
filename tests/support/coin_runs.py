"""Runs that compare coins: targets whose answers are right as often as their skill says."""

from __future__ import annotations

import json
from typing import Any

from tests.support.engines import Engines

SAMPLES = 120
RACING: dict[str, Any] = {"racing": {"block": 16}}
SKILL = {"value": 0.5, "change": "structured", "type": "number", "min": 0, "max": 1}


def coins(*skills: float, **parts: Any) -> dict[str, Any]:
    """A coin to beat, and others beside it."""
    return {
        "name": "coins",
        "configuration": {"skill": SKILL},
        "target": {"kind": "python", "ref": "plugged:coin"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(SAMPLES)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"name": "none", "configurations": [{"skill": skill} for skill in skills]},
        "judgement": RACING,
        "seed": 11,
    } | parts


async def trials_of(engines: Engines, run_id: str) -> dict[float, Any]:
    """The candidates' rows, by their skill."""
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT t.*, o.configuration FROM trials t JOIN overlays o USING (config_hash) WHERE run_id = $1", run_id
        )
    return {json.loads(row["configuration"])["skill"]: row for row in rows if row["purpose"] == "candidate"}
