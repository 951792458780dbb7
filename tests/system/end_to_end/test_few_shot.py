"""`few_shot` in whole runs: examples come from the training samples, and from nowhere else."""

from __future__ import annotations

import json
from typing import Any

from tests.support.engines import Engines
from tests.support.optimizer_specs import TEACHING
from tests.support.run_views import failure_of


async def _rows(engines: Engines, query: str, *arguments: Any) -> list[Any]:
    async with engines.database.connection() as connection:
        return list(await connection.fetch(query, *arguments))


async def test_examples_are_found_that_help_and_that_is_confirmed_on_held_back_samples(engines: Engines) -> None:
    result = await engines.run(TEACHING)
    assert (result["status"], result["rounds"]) == ("completed", 10)
    assert result["best_score"] > 0.45
    confirmation = result["confirmation"]
    assert confirmation["winner_score"] > confirmation["baseline_score"]
    trials = await _rows(
        engines,
        "SELECT o.configuration FROM trials t JOIN overlays o USING (config_hash) WHERE t.run_id = $1",
        result["optimization_id"],
    )
    shown = {example["input"] for row in trials for example in json.loads(row["configuration"])["examples"]}
    train = await _rows(
        engines,
        "SELECT s.input FROM suite_samples d JOIN samples s USING (item_hash) WHERE d.run_id = $1 AND d.split = 'train'",
        result["optimization_id"],
    )
    assert shown <= {json.loads(row["input"]) for row in train}
    assert 4 < len(shown) <= 16


async def test_the_history_says_which_were_chosen(engines: Engines) -> None:
    result = await engines.run({**TEACHING, "name": "told", "stop": {"max_rounds": 4}})
    told = await _rows(
        engines,
        "SELECT rationale, extra FROM candidates WHERE run_id = $1 AND round > 0 ORDER BY round, index",
        result["optimization_id"],
    )
    assert all(" of 16 examples: #" in row["rationale"] for row in told)
    operators = [json.loads(row["extra"])["operators"] for row in told]
    assert operators == [["random"]] * 12 + [["tpe"]] * 4
    assert {json.loads(row["extra"])["origin"] for row in told} == {"examples"}


async def test_without_training_samples_nothing_is_spent(engines: Engines) -> None:
    spec = {**TEACHING, "dataset": {"items": TEACHING["dataset"]["items"]}}
    error = await failure_of(await engines.start(spec))
    assert "dataset.splits: few_shot shows train samples and scores on validation samples" in str(error)
