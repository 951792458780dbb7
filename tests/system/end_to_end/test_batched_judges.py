"""Judges that are asked in batches: the same scores for half the price, each verdict paid for once."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.batch_server import Plan
from tests.support.batched_runs import asked_of, decided, judged_climber, judging, rows
from tests.support.engines import Engines

ONE_TRIAL = {"trials": 1}
ONE_ROUND: dict[str, Any] = {"budget": {"cost": 1000.0}, "stop": {"max_rounds": 1, "no_improvement": 0}}


async def baseline_of(engines: Engines, spec: dict[str, Any]) -> dict[str, Any]:
    return await engines.run(spec | {"budget": ONE_TRIAL | spec.get("budget", {})})


async def scores_of(engines: Engines, run_id: str) -> list[Any]:
    async with engines.database.connection() as connection:
        found = await connection.fetch(
            "SELECT a.item_hash, a.replicate, s.scores::text, s.feedback, s.tokens FROM answers a"
            " JOIN scores s USING (answer_id) WHERE a.run_id = $1",
            run_id,
        )
    return sorted(map(tuple, found), key=repr)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_judges_in_batches_give_the_scores_of_judges_at_once_for_half_the_price(
    provider: str, engines: Engines, tmp_path: Path
) -> None:
    """Two judges; verdicts that are none are asked for again, in a batch, by what was said before; so is what expired."""
    async with asked_of(engines, provider, tmp_path, judged_climber) as server:
        direct = await engines.run(judging(server, "direct", **ONE_ROUND))
        asked_at_once = len(server.chats)
        server.plans = [Plan(), Plan(ends="expired", answers=8), Plan(statuses={2: 500, 4: 429}), Plan(looks=1)]
        batched = await engines.run(judging(server, **ONE_ROUND))
        assert len(server.chats) == asked_at_once
    runs = [direct["optimization_id"], batched["optimization_id"]]
    assert await decided(engines, runs[0]) == await decided(engines, runs[1])
    assert await scores_of(engines, runs[0]) == await scores_of(engines, runs[1])
    assert set(server.paid.values()) == {1}
    assert server.paid.total() == asked_at_once
    assert batched["spend"] == direct["spend"] | {"cost": pytest.approx(direct["spend"]["cost"] / 2)}
    assert batched["lost"]["samples"] == 0
    assert not await rows(engines, "budget_leases", "run_id, holder", runs[1])
    [(samples, tokens, cost)] = await rows(engines, "budgets", "spent_samples, spent_tokens, spent_cost", runs[1])
    spend = batched["spend"]
    assert (samples, tokens, cost) == (spend["samples"], spend["tokens"], pytest.approx(spend["cost"])), "booked once"
    sent = {scorer for scorer, _ in await rows(engines, "batches", "scorer, number", runs[1])}
    assert sent == {None, "scorers[0]", "scorers[1]"}


async def test_in_auto_mode_what_a_batch_leaves_without_a_verdict_is_asked_at_once(engines: Engines, tmp_path: Path) -> None:
    """What one judge said of it is not asked for again, and neither is what cannot be used."""
    async with asked_of(engines, "openai", tmp_path, judged_climber) as server:
        direct = await baseline_of(engines, judging(server, "direct"))
        before = len(server.chats)
        server.plans = [Plan(), Plan(ends="expired", answers=8), Plan()]
        result = await baseline_of(engines, judging(server, "auto"))
        asked = len(server.chats) - before
    assert result["baseline_score"] == direct["baseline_score"]
    assert len(server.batches) == 3
    assert server.paid.total() == 12 + 8 + 12
    assert asked == 4 + 2, "those that expired, and those whose verdict was none"


async def test_in_auto_mode_a_judge_of_whom_no_batch_can_be_made_is_asked_at_once(engines: Engines, tmp_path: Path) -> None:
    """The target and the other judge have theirs."""
    async with asked_of(engines, "openai", tmp_path, judged_climber) as server:
        direct = await baseline_of(engines, judging(server, "direct"))
        before = len(server.chats)
        uploads = itertools.count()

        async def refuse_the_first_judge(name: str) -> None:
            if name == "upload" and next(uploads) == 1:
                raise web.HTTPNotFound

        server.before = refuse_the_first_judge
        result = await baseline_of(engines, judging(server, "auto"))
        asked = server.chats[before:]
    assert result["baseline_score"] == direct["baseline_score"]
    assert len(server.batches) == 2
    assert len({body["model"] for body in asked}) == 1, "one judge"
    assert server.paid.total() == 2 * 12


async def test_judges_are_asked_at_once_where_the_spec_says_so(engines: Engines, tmp_path: Path) -> None:
    async with asked_of(engines, "openai", tmp_path, judged_climber) as server:
        spec = judging(server)
        spec["execution"]["batches"]["judges"] = False
        result = await baseline_of(engines, spec)
    assert result["baseline_score"] is not None
    assert len(server.batches) == 1
    assert len(server.chats) == 2 * 12 + 2


async def test_a_judge_that_gives_no_verdict_leaves_its_answer_without_a_score(engines: Engines, tmp_path: Path) -> None:
    def stubborn(body: dict[str, Any]) -> str:
        is_asked = "good" in body["model"] and ">\n5\n<" in body["messages"][1]["content"]
        return "It depends." if is_asked else judged_climber(body)

    async with asked_of(engines, "openai", tmp_path, stubborn) as server:
        result = await baseline_of(engines, judging(server, execution={"min_coverage": 0.5}))
        sizes = [len(server.requests_of(batch)) for batch in server.batches.values()]
    assert sizes == [12, 12, 12, 3, 1], "the target, both judges, and the first one twice more"
    assert len(await rows(engines, "answers", "item_hash, replicate", result["optimization_id"])) == 12
    [(errors, coverage)] = await rows(engines, "trials", "errors::text, coverage", result["optimization_id"])
    assert (errors, coverage) == ('{"no verdict": 1}', pytest.approx(11 / 12))


async def test_answers_that_no_judge_has_to_look_at_are_scored_without_one(engines: Engines, tmp_path: Path) -> None:
    async with asked_of(engines, "openai", tmp_path, judged_climber) as server:
        spec = judging(server)
        for scorer in spec["scorers"]:
            scorer["extract"] = {"json_path": "$.nothing.there"}
        result = await baseline_of(engines, spec)
    assert result["baseline_score"] == 0.0
    assert len(server.batches) == 1
