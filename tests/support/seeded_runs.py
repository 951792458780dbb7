"""A run of any size, as its rows would be: what would take hours to measure is there at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from store.connection import Connection, Database
from store.encoding import storable_json

PER_ROUND = 20


@dataclass(frozen=True)
class Made:
    """One trial that never was."""

    id: str
    round: int
    index: int
    parents: list[str]
    score: float | None
    status: str
    stopped_early: str | None
    kept: bool


async def enlarge(database: Database, run_id: str, trials: int) -> None:
    """Give a finished run so many more trials, in rounds of twenty, with two parents for every third."""
    async with database.transaction() as connection:
        run = await connection.fetchrow(
            "SELECT baseline_candidate_id, baseline_score, round, started_at FROM runs WHERE run_id = $1", run_id
        )
        assert run is not None
        made = _made(trials, run["round"] + 1, run["baseline_candidate_id"], run["baseline_score"])
        await _insert(connection, run_id, made, run["started_at"])
        best = max((one for one in made if one.kept), key=lambda one: one.score or 0.0)
        await connection.execute(
            "UPDATE runs SET round = $2, completed = completed + $3, best_candidate_id = $4, best_score = $5 WHERE run_id = $1",
            run_id,
            made[-1].round,
            trials,
            best.id,
            best.score,
        )


def _made(count: int, first_round: int, baseline: str, score: float) -> list[Made]:
    random = Random(7)
    made: list[Made] = []
    fit, best = [baseline], score
    for number in range(count):
        round_index = first_round + number // PER_ROUND
        if number % PER_ROUND == 0:
            ranked = sorted((one for one in made[-PER_ROUND * 2 :] if one.score), key=lambda one: -(one.score or 0.0))
            fit = [one.id for one in ranked[:6]] or fit
        status = "failed" if number % 40 == 33 else "completed"
        reached = score + 0.6 * (1 - math.exp(-number / (count / 3))) + random.gauss(0, 0.05) - 0.05
        value = round(min(max(reached, 0.0), 1.0), 4) if status == "completed" else None
        kept = value is not None and value > best + 1e-9
        best = value if kept and value is not None else best
        parents = random.sample(fit, min(len(fit), 2 if number % 3 == 0 else 1))
        stopped = "certain not to be better" if value is not None and not kept and random.random() < 0.2 else None
        made.append(
            Made(f"r{round_index}-{number:05d}", round_index, number % PER_ROUND, parents, value, status, stopped, kept)
        )
    return made


async def _insert(connection: Connection, run_id: str, made: list[Made], start: datetime) -> None:
    row = await connection.fetchrow("SELECT * FROM trials WHERE run_id = $1 AND purpose = 'candidate' LIMIT 1", run_id)
    assert row is not None
    template: dict[str, Any] = dict(row)
    candidates = [(run_id, one.id, template["config_hash"], one.round, one.index, one.parents, "seeded", 0) for one in made]
    names = ["run_id", "candidate_id", "config_hash", "round", "index", "parent_candidate_ids", "rationale", "first_replicate"]
    await connection.copy_records_to_table("candidates", records=candidates, columns=names)
    columns = list(template)
    rows = []
    for place, one in enumerate(made):
        changed = {
            "candidate_id": one.id,
            "trial_id": f"{run_id}/{one.id}",
            "round": one.round,
            "index": one.index,
            "status": one.status,
            "score": one.score,
            "score_low": None if one.score is None else one.score - 0.06,
            "score_high": None if one.score is None else one.score + 0.06,
            "stopped_early": one.stopped_early,
            "error": "the target raised" if one.status == "failed" else None,
            "judged": storable_json(
                {
                    "candidate_id": one.id,
                    "kept": one.kept,
                    "verdict": "better" if one.kept else "inconclusive",
                    "explanation": f"seeded {place}",
                }
            ),
            "started_at": start + timedelta(seconds=place),
            "finished_at": start + timedelta(seconds=place + 1),
        }
        rows.append(tuple({**template, **changed}[name] for name in columns))
    await connection.copy_records_to_table("trials", records=rows, columns=columns)
