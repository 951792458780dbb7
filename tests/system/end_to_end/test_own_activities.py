"""Scorers and proposers that are activities of the user's: whatever they do, it costs one score, or one proposal."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.plugins.own_activities import OwnActivities, OwnActivityFailed
from activities.settings import ACTIVITY_QUEUES
from tests.support.activity_targets import failure
from tests.support.allowed import allow
from tests.support.engines import Engines
from workflows.model.spec.extensions.called_activity import CalledActivity

Spec = Callable[..., dict[str, Any]]
Call = dict[str, Any]
_queues = itertools.count(1)


@asynccontextmanager
async def serving(engines: Engines, answer: Callable[[Call], Any], *, allowed: bool = True) -> AsyncIterator[dict[str, Any]]:
    """A worker of the user's with one activity; gives what a spec says of it."""

    @activity.defn(name="own")
    async def own(call: Call) -> Any:
        answered = answer(call)
        return await answered if asyncio.iscoroutine(answered) else answered

    queue = f"own-{next(_queues)}"
    if allowed:
        allow(ACTIVITY_QUEUES, queue)
    async with Worker(engines.client, task_queue=queue, activities=[own], graceful_shutdown_timeout=timedelta(0)):
        yield {"kind": "activity", "activity": "own", "task_queue": queue, "attempts": 1}


def scored_by(scorer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"scorers": [{**scorer, "name": "height", **more}], "objective": {"metric": "height"}}


def height(call: Call) -> float:
    return float(call["output"]["value"]["height"])


async def test_an_activity_scores_and_what_it_took_counts(engines: Engines, spec: Spec) -> None:
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        calls.append(call)
        return [{"value": height(call), "reason": "too low", "tokens": 3, "cost": 0.01}, {"name": "tone", "value": True}]

    told = {"at_most": {"cost": 0.02}, "execution_params": {"strict": True}}
    async with serving(engines, answer) as scorer:
        result = await engines.run(spec(**scored_by(scorer, **told), stop={"max_rounds": 1}, budget={"cost": 5}))
    assert result["best_score"] >= result["baseline_score"] == pytest.approx(0.314, abs=0.001)
    assert result["spend"]["tokens"] == (10 + 3) * len(calls)
    assert result["spend"]["cost"] == pytest.approx((0.001 + 0.01) * len(calls))
    assert len(calls) == result["spend"]["samples"] == 16
    first = calls[0]
    assert set(first) == {"scorer", "output", "sample", "execution_params", "context"}
    assert (first["scorer"], first["execution_params"]) == ("height", {"strict": True})
    assert set(first["sample"]) == {"id", "input", "expected", "weight", "tags"}
    assert first["context"]["run_id"] == result["optimization_id"]


async def hang(_: Call) -> float:
    await asyncio.sleep(60)
    return 1.0


def refuse(_: Call) -> Any:
    raise ApplicationError("no such unit", type="NoUnit", non_retryable=True)


UNUSABLE: dict[str, tuple[Callable[[Call], Any], str]] = {
    "s0": (lambda _: math.nan, "unusable: nan is not a finite number"),
    "s1": (lambda _: "a lot", "own returned 'a lot'; return a number"),
    "s2": (lambda _: {"value": 1, "reason": "x" * 600_000}, "at most 524,288 are read"),
    "s3": (refuse, "own raised NoUnit: no such unit"),
    "s4": (hang, "own took longer than 0.5 s"),
    "s5": (lambda _: [], "own returned 0 scores"),
    "s6": (lambda _: {"value": 1, "cost": -1}, "own returned cost=-1"),
    "s7": (lambda _: b"raw", "it is encoded as 'binary/plain'; return JSON"),
    "s8": (lambda _: {"value": 0.5, "name": "spaces in it"}, "a score named 'spaces in it'"),
    "s9": (lambda _: 1e40, "give a number between"),
}


async def test_whatever_a_scorer_returns_is_at_worst_an_answer_without_a_score(engines: Engines, spec: Spec) -> None:
    def answer(call: Call) -> Any:
        unusable = UNUSABLE.get(call["sample"]["id"])
        return unusable[0](call) if unusable is not None else height(call)

    items = {"items": [{"id": f"s{n}", "input": n} for n in range(20)], "splits": "none"}
    lenient = {"max_failed_scores": 0.6, "min_coverage": 0.3}
    async with serving(engines, answer) as scorer:
        result = await engines.run(
            spec(**scored_by(scorer, timeout="500ms"), dataset=items, execution=lenient, budget={"trials": 1})
        )
    assert result["baseline_score"] == pytest.approx(0.314, abs=0.001)
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT s.item_id, o.status, o.error FROM outcomes o JOIN samples s USING (item_hash)"
            " WHERE o.run_id = $1 AND s.dataset_id = (SELECT dataset_id FROM runs WHERE run_id = $1)",
            result["optimization_id"],
        )
    told = {row["item_id"]: (row["status"], row["error"] or "") for row in rows}
    assert {sample: status for sample, (status, _) in told.items() if sample in UNUSABLE} == dict.fromkeys(UNUSABLE, "unscored")
    for sample, (_, why) in UNUSABLE.items():
        assert why in told[sample][1], sample


async def test_a_scorer_that_nobody_serves_leaves_answers_that_are_kept(engines: Engines, spec: Spec) -> None:
    allow(ACTIVITY_QUEUES, "nobody-serves-it")
    scorer = {"kind": "activity", "activity": "own", "task_queue": "nobody-serves-it", "patience": "500ms"}
    _, message = await failure(engines, spec(**scored_by(scorer)))
    assert "only 0 of 8 samples have an answer" in message
    assert "no worker took own on task queue 'nobody-serves-it' within 0.5 s" in message


async def test_an_activity_proposes_and_what_it_took_counts(engines: Engines, spec: Spec) -> None:
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        calls.append(call)
        return {"values": {"x": 700}, "rationale": "the top", "tokens": 50, "cost": 0.25}

    async with serving(engines, answer) as proposer:
        optimizer = {"name": "refine", "proposer": {**proposer, "examples": 3}}
        result = await engines.run(spec(optimizer=optimizer, stop={"max_rounds": 1}, budget={"cost": 1}))
    assert (result["best_configuration"]["x"], len(calls)) == (700, 1)
    assert (result["spend"]["tokens"], result["spend"]["cost"]) == (16 * 10 + 50, pytest.approx(16 * 0.001 + 0.25))
    first = calls[0]
    assert (first["configuration"], first["factors"]) == ({"x": 10, "unit": "metre"}, ["x"])
    assert [set(record) for record in first["records"]] == [{"inputs", "output", "score", "feedback", "expected"}] * 3
    assert first["context"]["run_id"] == result["optimization_id"]


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        ({"x": 700}, "own: it returned {'x': 700}; return an object with the new values by factor name as `values`"),
        ({"values": {"x": math.nan}}, "is not a finite number"),
        ("700", "own: it returned '700'; return an object"),
    ],
)
async def test_whatever_a_proposer_returns_is_at_worst_a_round_without_a_proposal(
    returned: Any, why: str, engines: Engines, spec: Spec
) -> None:
    async with serving(engines, lambda _: returned) as proposer:
        result = await engines.run(spec(optimizer={"name": "refine", "proposer": proposer}))
    assert result["status"] == "completed"
    assert why in result["message"]


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ("scorers[0].task_queue", lambda named: scored_by(named)),
        ("optimizer.proposer.task_queue", lambda named: {"optimizer": {"name": "refine", "proposer": named}}),
    ],
)
async def test_a_queue_that_the_operator_does_not_list_is_refused_by_its_field(
    where: str, parts: Callable[[dict[str, Any]], dict[str, Any]], engines: Engines, spec: Spec
) -> None:
    named = {"kind": "activity", "activity": "own", "task_queue": "not-listed"}
    _, message = await failure(engines, spec(**parts(named)))
    assert message.startswith(f"{where}: this worker calls no activities on task queue 'not-listed'")
    assert "RATCHET_ACTIVITY_QUEUES" in message


async def test_a_call_that_is_made_again_finds_the_one_before(engines: Engines) -> None:
    """As after a worker was killed while it waited: whether the call is over or not, nothing is called twice."""
    calls = 0
    gate = asyncio.Event()

    async def answer(call: Call) -> Any:
        nonlocal calls
        calls += 1
        await gate.wait()
        return calls

    own = OwnActivities(engines.client, "optimization")
    async with serving(engines, answer) as named:
        asked = CalledActivity(activity="own", task_queue=named["task_queue"], attempts=1)
        first = asyncio.create_task(own.call(asked, {"n": 1}, "found-again/score"))
        second = asyncio.create_task(own.call(asked, {"n": 1}, "found-again/score"))
        async with asyncio.timeout(20):
            while calls == 0:
                await asyncio.sleep(0.01)
        gate.set()
        assert (await first, await second) == (1, 1)
        assert await own.call(asked, {"n": 1}, "found-again/score") == 1
        assert await own.call(asked, {"n": 2}, "found-again/score") == 2


async def test_what_is_too_large_is_not_sent(engines: Engines) -> None:
    own = OwnActivities(engines.client, "optimization")
    with pytest.raises(OwnActivityFailed, match=r"the call has 2,000,0\d\d bytes; an activity takes at most 1,900,000"):
        await own.call(CalledActivity(activity="own", task_queue="own"), {"text": "x" * 2_000_000}, "large/score")


async def test_a_cancelled_run_cancels_what_its_scorers_were_asked(engines: Engines, spec: Spec) -> None:
    asked: list[str] = []

    async def answer(call: Call) -> Any:
        asked.append(call["sample"]["id"])
        return await hang(call)

    async with serving(engines, answer) as scorer:
        handle = await engines.start(spec(**scored_by(scorer)))
        async with asyncio.timeout(20):
            while not asked:
                await asyncio.sleep(0.02)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        query = f"WorkflowType = 'OwnActivityWorkflow' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{handle.id}'"
        async with asyncio.timeout(20):
            while [one async for one in engines.client.list_workflows(query)]:
                await asyncio.sleep(0.05)
