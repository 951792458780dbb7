"""Noise first: how much scores vary is measured before the search, and says what the run can find out, and by which design."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.coin_runs import coins
from tests.support.engines import Engines
from tests.support.run_views import failure_of

NOISE: dict[str, Any] = {"noise": {"samples": 30, "replicates": 3}}


async def trials_of(engines: Engines, run_id: str) -> list[tuple[Any, ...]]:
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT purpose, samples, replicates, total, paid_samples FROM trials WHERE run_id = $1 ORDER BY started_at", run_id
        )
    return [tuple(row) for row in rows]


async def test_what_the_noise_trial_was_answered_is_not_paid_again_by_the_baseline(engines: Engines) -> None:
    result = await engines.run(coins(0.6, judgement=NOISE))
    assert await trials_of(engines, result["optimization_id"]) == [
        ("noise", 30, 3, 90, 90),
        ("baseline", 120, 1, 120, 90),
        ("candidate", 120, 1, 120, 120),
    ]
    assert result["spend"]["samples"] == 90 + 90 + 120
    assert result["spend"]["trials"] == 3


async def test_the_run_says_what_it_can_find_before_and_after_the_noise_is_known(engines: Engines) -> None:
    unknown = await engines.run(coins(0.6, judgement={}))
    known = await engines.run(coins(0.6, judgement=NOISE))
    assert unknown["noise"] is None
    assert unknown["plan"]["words"].startswith(
        "if every answer were a toss of a coin, scored 0 or 1: with 120 samples x 1 replicate,"
    )
    assert known["noise"]["samples"] == 30 and known["noise"]["within"] > 0.1
    assert known["plan"]["words"].startswith(
        f"{known['noise']['noisy_samples']} of 30 samples vary when they are answered again: "
    )
    assert 0 < known["plan"]["detectable"] < unknown["plan"]["detectable"]
    async with engines.database.connection() as connection:
        stored = await connection.fetchrow("SELECT plan, noise FROM runs WHERE run_id = $1", known["optimization_id"])
    assert stored is not None
    assert (json.loads(stored["plan"]), json.loads(stored["noise"])) == (known["plan"], known["noise"])


async def test_what_can_be_found_is_told_in_the_units_of_the_score(engines: Engines) -> None:
    scorers = [{"kind": "python", "name": "altitude", "ref": "plugged:altitude"}]
    result = await engines.run(coins(0.6, judgement={}, scorers=scorers, objective={"metric": "altitude"}))
    assert result["plan"]["words"].startswith("if answers varied as much as samples do: with 120 samples")
    assert 5 < result["plan"]["detectable"] < 15
    assert result["first_look"] == []


async def test_a_target_without_noise_is_known_to_have_none(engines: Engines, spec: Any) -> None:
    items = {"items": [{"id": f"s{n}", "input": n} for n in range(20)], "splits": "none"}
    result = await engines.run(spec(dataset=items, judgement={"noise": True}, stop={"max_rounds": 1}))
    assert (result["noise"]["within"], result["noise"]["noisy_samples"]) == (0.0, 0)


@pytest.mark.parametrize(("margin", "more"), [(0.3, False), (0.1, True)])
async def test_replicates_follow_from_the_margin_that_is_wanted(engines: Engines, margin: float, more: bool) -> None:
    result = await engines.run(coins(0.6, replicates="auto", judgement={"margin": margin}))
    plan = result["plan"]
    _, baseline, candidate = await trials_of(engines, result["optimization_id"])
    assert baseline[:3] == ("baseline", plan["samples"], plan["replicates"])
    assert candidate[:4] == ("candidate", plan["samples"], plan["replicates"], plan["samples"] * plan["replicates"])
    if more:
        assert plan["replicates"] > 1 and plan["reached"]
    else:
        assert plan["samples"] < 120 and plan["replicates"] == 1


async def test_a_baseline_that_cannot_be_measured_fails_the_run_before_its_noise_is_known(engines: Engines, spec: Any) -> None:
    handle = await engines.start(spec(target={"kind": "python", "ref": "plugged:raises"}, judgement=NOISE))
    failure = await failure_of(handle)
    assert failure.type == "baseline_failed"
    assert "samples failed; first error: target raised RuntimeError: no answer to" in failure.message
