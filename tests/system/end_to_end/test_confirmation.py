"""What a run stands for: a winner whose gain holds where its choice did not look, or else the baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store.read.reader import StoreReader
from tests.support.coin_runs import SKILL, coins
from tests.support.engines import Engines
from tests.support.replaying import nothing_differs

Spec = Callable[..., dict[str, Any]]
EQUALS = tuple(0.5 + step / 1000 for step in range(1, 9))


def samples(count: int) -> dict[str, Any]:
    return {"items": [{"id": f"s{n}", "input": n} for n in range(count)]}


async def test_a_deterministic_gain_is_confirmed_without_another_call(engines: Engines, spec: Spec) -> None:
    result = await engines.run(spec(name="crossed", dataset=samples(8)), run_id="crossed")
    confirmation = result["confirmation"]
    evidence = confirmation["judged"]["evidence"]
    assert (confirmation["how"], confirmation["holds"], evidence["n"]) == ("cross_fitting", True, 8)
    assert confirmation["explanation"].startswith("confirmed by cross-fitting on the samples of the search: better than r0-")
    assert confirmation["winner_score"] - confirmation["baseline_score"] == pytest.approx(evidence["effect"])
    assert evidence["effect"] > 0 and confirmation["judged"]["verdict"] == "better"
    assert result["unproven"] is None and result["changes"]
    assert result["spend"]["samples"] == 8 * result["spend"]["trials"] == 8 * result["counts"]["completed"]
    async with engines.database.connection() as connection:
        began = await connection.fetchval("SELECT payload FROM events WHERE run_id = 'crossed' ORDER BY id LIMIT 1")
    assert "by cross-fitting over the samples of the search" in began
    assert "by cross-fitting over the samples of the search" in result["plan"]["words"]
    await nothing_differs(engines.database, "crossed")


async def test_the_best_of_equals_leaves_the_baseline_as_the_result(engines: Engines) -> None:
    release = {"prompt": "coins/skill", "mode": "approval"}
    configuration = {"skill": SKILL, "prompt": {"value": "Toss.", "change": "text"}}
    spec = coins(*EQUALS, name="equals", configuration=configuration, dataset=samples(30), judgement={}, release=release)
    result = await engines.run(spec, run_id="equals")
    unproven, confirmation = result["unproven"], result["confirmation"]
    assert unproven["score"] > result["baseline_score"] == result["best_score"]
    assert result["best_candidate_id"].startswith("r0-") and not result["changes"]
    assert result["best_configuration"] == {"skill": 0.5, "prompt": "Toss."} != unproven["configuration"]
    assert unproven["changes"]["skill"] == {"before": 0.5, "after": unproven["configuration"]["skill"]}
    assert (confirmation["holds"], result["status"]) == (False, "completed")
    assert unproven["why"] == confirmation["explanation"]
    assert unproven["why"].startswith("not confirmed by cross-fitting on the samples of the search: neither better nor worse")
    assert result["message"].endswith("; no improvement was found that holds")
    assert result["release"]["status"] == "not_asked"
    assert result["release"]["message"].startswith("no improvement was found that holds: not confirmed by cross-fitting")
    run = await StoreReader(engines.database).runs.load("equals")
    assert run is not None and run.best_candidate_id == result["best_candidate_id"]
    await nothing_differs(engines.database, "equals")


async def test_a_large_dataset_has_samples_held_back_without_being_asked_for(engines: Engines) -> None:
    result = await engines.run(coins(0.95, name="large", dataset=samples(100), judgement={}), run_id="large")
    evidence = result["confirmation"]["judged"]["evidence"]
    assert (result["confirmation"]["how"], result["confirmation"]["holds"], evidence["n"]) == ("test_split", True, 40)
    assert result["spend"]["samples"] == 2 * 60 + 2 * 40


async def test_a_confirmation_that_the_time_budget_ends_is_told_and_leaves_the_baseline(engines: Engines, spec: Spec) -> None:
    asked = spec(
        name="late",
        target={"kind": "python", "ref": "plugged:never_confirmed"},
        dataset=samples(8) | {"splits": {"validation": 0.5, "test": 0.5}},
        stop={"max_rounds": 1, "no_improvement": 0},
        budget={"wall_time": "12s"},
    )
    result = await engines.run(asked, run_id="late")
    assert result["status"] == "completed" and result["unproven"] is not None and not result["changes"]
    assert result["unproven"]["why"].startswith("not confirmed: the time budget (budget.wall_time) was over before")
    await nothing_differs(engines.database, "late")
