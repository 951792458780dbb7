"""Runs that are graded by a model, or over the labels of a whole set, from start to end over real HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clients.demo.model_server import SimulatedModel
from tests.support.engines import Engines
from tests.support.graded_runs import SAYINGS, echoing, graded


async def outcomes(engines: Engines, result: dict[str, Any]) -> list[dict[str, Any]]:
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT * FROM outcomes WHERE run_id = $1 ORDER BY trial_id, item_hash", result["optimization_id"]
        )
    return [dict(row) for row in rows]


async def test_a_judge_grades_a_run_and_is_part_of_what_it_costs(engines: Engines, server: SimulatedModel) -> None:
    result = await engines.run(graded(server))
    assert result["baseline_score"] == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert result["best_score"] == 1.0
    assert result["best_configuration"]["opening"] == "sorry, a refund: "
    stats = server.stats()
    assert stats["calls"] == 2 * 2 * len(SAYINGS)
    assert result["spend"]["tokens"] == stats["prompt_tokens"] + stats["completion_tokens"]
    assert result["spend"]["cost"] == pytest.approx((stats["prompt_tokens"] + 10 * stats["completion_tokens"]) / 1e6)
    rows = await outcomes(engines, result)
    details = [json.loads(row["score_details"]) for row in rows]
    assert {detail["tone"]["reason"] for detail in details} >= {"graded 1 (0 to 2): It lacks refund."}
    assert all(detail["tone"]["tokens"] > 0 and detail["tone"]["cost"] > 0 for detail in details)
    assert any(row["feedback"] == "tone: graded 0 (0 to 2): It lacks sorry, refund." for row in rows)


async def test_trouble_with_the_judge_changes_no_score(engines: Engines, server: SimulatedModel) -> None:
    quiet = await engines.run(graded(server))
    server.simulate(
        {"status": 500, "every": 4, "model": "simulated-judge"},
        {"status": 429, "every": 5, "model": "simulated-judge"},
        {"lie": "prose", "every": 3, "model": "simulated-judge"},
    )
    troubled = await engines.run(graded(server))
    assert (troubled["baseline_score"], troubled["best_score"]) == (quiet["baseline_score"], quiet["best_score"])


async def test_a_judge_that_never_gives_a_verdict_fails_the_run_and_is_named(engines: Engines, server: SimulatedModel) -> None:
    server.simulate({"lie": "prose", "model": "simulated-judge"})
    handle = await engines.start(graded(server))
    with pytest.raises(Exception, match="Workflow execution failed") as failed:
        await handle.result()
    assert "judge 'simulated-judge' of scorer 'tone' gave no verdict in 3 attempts" in str(failed.value.__cause__)


async def test_f1_over_the_set_is_what_a_run_optimizes(engines: Engines, server: SimulatedModel) -> None:
    said = [("bug", "bug"), ("Bug", "bug"), ("bug", "billing"), ("billing", "billing"), ("nonsense", "billing")]
    items = [{"id": f"s{n}", "input": {"say": given}, "expected": expected} for n, (given, expected) in enumerate(said)]
    scorers = [{"kind": "classification", "name": "label"}]
    result = await engines.run(echoing(server, items, scorers=scorers, objective={"kind": "f1"}))
    assert result["baseline_score"] == pytest.approx((2 * 2 / (2 * 2 + 1) + 2 * 1 / (2 * 1 + 2)) / 2)
    assert result["best_score"] == result["baseline_score"]
    labels = [json.loads(row["score_details"])["label"]["labels"] for row in await outcomes(engines, result)]
    assert ["bug", "billing"] in labels
    assert ["nonsense", "billing"] in labels


async def test_similarity_costs_what_its_embeddings_cost(engines: Engines, server: SimulatedModel) -> None:
    items = [{"input": {"say": text}, "expected": "sorry, a refund"} for text in SAYINGS]
    similarity = {"kind": "similarity", "model": "simulated-embedding", "base_url": server.base_url}
    result = await engines.run(echoing(server, items, scorers=[similarity], objective="similarity"))
    assert 0 < result["baseline_score"] < 1
    stats = server.stats()
    assert result["spend"]["tokens"] == stats["prompt_tokens"] + stats["completion_tokens"]
