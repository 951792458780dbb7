"""`search` in whole runs: numbers, choices, orders and conditions, many side by side, and what mattered in the end."""

from __future__ import annotations

from typing import Any

import pytest

from clients.reports.facts import RunFacts
from clients.reports.html import html
from clients.reports.load import facts_of
from clients.reports.markdown import markdown
from clients.reports.text.boxes import Verbosity, box
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.html_reports import HtmlReport
from tests.support.optimizer_specs import BAKING
from tests.support.run_views import failure_of


async def _trials(engines: Engines, run_id: str) -> list[Any]:
    async with engines.database.connection() as connection:
        return list(
            await connection.fetch(
                "SELECT t.config_hash, t.score, o.configuration, c.extra, c.parent_candidate_ids FROM trials t"
                " JOIN candidates c USING (run_id, candidate_id) JOIN overlays o ON o.config_hash = t.config_hash"
                " WHERE run_id = $1 AND purpose = 'candidate' ORDER BY t.round, t.index",
                run_id,
            )
        )


async def _facts(engines: Engines, run_id: str) -> RunFacts:
    report = await StoreReader(engines.database).runs.report(run_id)
    assert report is not None
    return facts_of(report)


async def test_it_finds_better_values_tries_nothing_twice_and_says_what_mattered(engines: Engines) -> None:
    result = await engines.run(BAKING)
    assert (result["status"], result["rounds"]) == ("completed", 12)
    assert result["best_score"] > result["baseline_score"] + 0.5
    trials = await _trials(engines, result["optimization_id"])
    assert len({row["config_hash"] for row in trials}) == len(trials) == 12 * 4
    assert result["counts"]["rejected"] == 0
    mattered = result["importances"]
    assert mattered["trials"] == 49
    assert {one["factor"] for one in mattered["factors"]} == {"heat", "rack", "fan", "fan_minutes", "layers"}
    assert sum(one["share"] for one in mattered["factors"]) == pytest.approx(1)


async def test_reports_tell_what_mattered(engines: Engines) -> None:
    result = await engines.run({**BAKING, "name": "told", "stop": {"max_rounds": 4}})
    facts = await _facts(engines, result["optimization_id"])
    first = result["importances"]["factors"][0]
    told = f"{first['factor']} {first['share']:.0%}"
    assert any("Mattered:" in line and told in line for line in box(facts, Verbosity.SUMMARY).splitlines())
    assert f"| **Mattered** | {told.replace('_', chr(92) + '_')}" in markdown(facts)
    assert HtmlReport(html(facts, {})).figures["Mattered"].startswith(told)


async def test_a_grid_is_tried_to_its_end(engines: Engines) -> None:
    factors = {**BAKING["configuration"], "heat": 180, "layers": ["dough"], "fan_minutes": 15}
    spec = {**BAKING, "name": "grid", "configuration": factors, "optimizer": {"name": "search", "sampler": "grid"}}
    result = await engines.run(spec)
    assert (result["stop_reason"], result["message"]) == ("convergence", "Every combination was tried: 6 configurations")
    best = result["best_configuration"]
    assert (best["rack"], best["fan"], best["fan_minutes"]) == ("middle", True, 15)


async def test_a_run_over_several_executions_decides_the_same(engines: Engines) -> None:
    whole = await engines.run({**BAKING, "name": "whole", "stop": {"max_rounds": 5}})
    spec = {**BAKING, "name": "parts", "stop": {"max_rounds": 5}, "execution": {"max_rounds_per_execution": 2}}
    parts = await engines.run(spec)
    first, second = [await _trials(engines, result["optimization_id"]) for result in (whole, parts)]
    assert [row["config_hash"] for row in first] == [row["config_hash"] for row in second]
    assert whole["importances"] == parts["importances"]


async def test_it_learns_from_an_earlier_run_over_the_same_samples(engines: Engines) -> None:
    earlier = await engines.run({**BAKING, "name": "earlier"})
    spec = {**BAKING, "name": "later", "seed": 8, "stop": {"max_rounds": 1}}
    spec["optimizer"] = {"name": "search", "warm_start": [earlier["optimization_id"]]}
    later = await engines.run(spec)
    assert later["best_score"] > later["baseline_score"] + 0.4


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"objective": {"metric": "height", "direction": "minimize"}}, "has other scorers or another objective"),
        (
            {"dataset": {"items": [{"input": 99}], "splits": "none"}},
            "measured other samples (with splits, another seed draws others)",
        ),
    ],
)
async def test_a_run_that_says_nothing_about_this_one_is_no_warm_start(
    engines: Engines, change: dict[str, Any], problem: str
) -> None:
    earlier = await engines.run({**BAKING, "name": "other", "stop": {"max_rounds": 1}})
    spec = {**BAKING, **change, "optimizer": {"name": "search", "warm_start": [earlier["optimization_id"], "nobody"]}}
    told = str(await failure_of(await engines.start(spec)))
    assert f"optimizer.warm_start: '{earlier['optimization_id']}' {problem}; leave it out" in told
    assert "optimizer.warm_start: 'nobody' is no run in this store" in told


async def test_texts_and_numbers_are_treated_by_one_run_in_turns(engines: Engines) -> None:
    recipe = {"value": "bake until it burns", "change": "text"}
    optimizer = {"name": "search", "proposer": {"kind": "python", "ref": "plugged:rewrites_the_recipe"}}
    spec = {**BAKING, "name": "turns", "optimizer": {**optimizer, "candidates_per_round": 1}}
    result = await engines.run({**spec, "configuration": {**BAKING["configuration"], "recipe": recipe}})
    trials = await _trials(engines, result["optimization_id"])
    assert ["recipe" in row["extra"] for row in trials[:4]] == [False, True, False, True]
    assert "burn" not in result["best_configuration"]["recipe"]
    assert result["best_configuration"]["heat"] != 100
