"""Samples that a provider answers in batches, over real HTTP: the same decisions for half the price, nothing sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payloads, TimeSkippingConfig, WorkflowType
from temporalio.api.enums.v1 import EventType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest
from temporalio.client import WorkflowFailureError

from activities.settings import Settings
from clients.embedded.stack import embedded_stack
from clients.reports.text.batches_text import waiting_text
from clients.temporal import connect
from store.read.waiting_batches import BatchReader
from tests.support.allowed import OPERATOR
from tests.support.batch_server import Plan, batch_server
from tests.support.batched_provider import Batch, BatchedProvider
from tests.support.batched_runs import COST_OF_AN_ANSWER, asked_of, climber, climbing, decided, rows
from tests.support.engines import PLUGINS, Engines
from worker import serving

ONE_TRIAL = {"trials": 1}
ALL = 12
PROVIDERS = ("openai", "anthropic", "google")
NATIVE = ("anthropic", "google")
BATCHES = {
    "openai": ("batch_2", "in_progress"),
    "anthropic": ("batch_1", "in_progress"),
    "google": ("batches/batch_1", "running"),
}
"""What providers call the first batch, and say of it while it goes on."""


async def baseline_of(engines: Engines, spec: dict[str, Any]) -> dict[str, Any]:
    """A run of nothing but the baseline."""
    return await engines.run(spec | {"budget": ONE_TRIAL | spec.get("budget", {})})


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_run_in_batches_decides_what_the_direct_one_does_for_half_the_price(
    provider: str, engines: Engines, tmp_path: Path
) -> None:
    """Races, replicates and the confirmation among them."""
    items = [{"id": f"s{n}", "input": n % ALL, "expected": "yes"} for n in range(3 * ALL)]
    parts: dict[str, Any] = {
        "dataset": {"items": items, "splits": {"validation": 0.5, "test": 0.5}},
        "judgement": {"racing": {"block": 6}},
        "replicates": 2,
    }
    async with asked_of(engines, provider, tmp_path) as server:
        direct = await engines.run(climbing(server, "direct", **parts))
        asked_at_once = len(server.chats)
        batched = await engines.run(climbing(server, **parts))
        assert len(server.chats) == asked_at_once
    runs = [direct["optimization_id"], batched["optimization_id"]]
    assert await decided(engines, runs[0]) == await decided(engines, runs[1])
    calls = direct["spend"]["samples"]
    assert direct["spend"]["cost"] == pytest.approx(calls * COST_OF_AN_ANSWER)
    assert batched["spend"] == direct["spend"] | {"cost": pytest.approx(calls * COST_OF_AN_ANSWER / 2)}
    assert server.paid.total() == calls
    assert set(server.paid.values()) == {1}
    assert {state for state, _ in await rows(engines, "batches", "state, number", runs[1])} == {"taken"}
    assert batched["best_score"] > batched["baseline_score"]
    assert batched["confirmation"]["judged"] == direct["confirmation"]["judged"] is not None


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_got_no_answer_goes_again_alone(provider: str, engines: Engines, tmp_path: Path) -> None:
    """Expired, failed by the server, refused for the rate, not mentioned at all, beside lines that nobody can read."""
    async with asked_of(engines, provider, tmp_path) as server:
        expected = await baseline_of(engines, climbing(server, "direct"))
        server.plans = [
            Plan(ends="expired", answers=9, statuses={1: 500, 3: 429}, garbage=("no JSON", "[]", '{"custom_id": 7}')),
            Plan(looks=2, silent=(0,)),
        ]
        result = await baseline_of(engines, climbing(server))
    sizes = [len(server.requests_of(batch)) for batch in server.batches.values()]
    assert sizes == [12, 5, 1]
    assert result["baseline_score"] == expected["baseline_score"]
    assert set(server.paid.values()) == {1}
    assert len(server.paid) == ALL


async def test_a_request_that_the_model_refuses_fails_its_sample_and_is_not_sent_again(
    engines: Engines, tmp_path: Path
) -> None:
    async with batch_server(climber, tmp_path) as server:
        server.plans = [Plan(statuses={0: 400})]
        result = await baseline_of(engines, climbing(server))
    assert len(server.batches) == 1
    failed = await rows(engines, "answers", "status, error_class, error", result["optimization_id"])
    assert [row[1:] for row in failed if row[0] == "failed"] == [
        ("http 400", "the model refused the request (HTTP 400): simulated")
    ]


async def test_in_auto_mode_what_a_batch_leaves_is_asked_at_once_and_so_is_all_without_time_for_one(
    engines: Engines, tmp_path: Path
) -> None:
    async with batch_server(climber, tmp_path) as server:
        server.plans = [Plan(ends="expired", answers=9)]
        result = await baseline_of(engines, climbing(server, execution={"mode": "auto"}))
        assert len(server.batches) == 1
        assert (server.paid.total(), len(server.chats)) == (9, 3)
        assert result["spend"]["cost"] == pytest.approx(9 * COST_OF_AN_ANSWER / 2 + 3 * COST_OF_AN_ANSWER)
        hurried = climbing(server, execution={"mode": "auto"}, budget={"wall_time": "23h"}, name="hurried")
        assert (await baseline_of(engines, hurried))["baseline_score"] == result["baseline_score"]
        assert (len(server.batches), len(server.chats)) == (1, 15)


@pytest.mark.parametrize(("stumble", "status"), [("upload", "404"), ("make", "405")])
async def test_in_auto_mode_all_is_asked_at_once_where_no_batch_can_be_made(
    stumble: str, status: str, engines: Engines, tmp_path: Path
) -> None:
    """What was set aside for the batch is given back: the budget covers no more than either."""
    async with batch_server(climber, tmp_path) as server:
        server.stumbles = {stumble: [status]}
        budget = {"samples": ALL, "cost": 100.0}
        result = await baseline_of(engines, climbing(server, execution={"mode": "auto"}, budget=budget))
        assert (len(server.batches), len(server.chats)) == (0, ALL)
        assert result["spend"]["cost"] == pytest.approx(ALL * COST_OF_AN_ANSWER)
        assert [said for said, _ in await rows(engines, "batches", "state, number", result["optimization_id"])] == ["withdrawn"]
        assert not await rows(engines, "budget_leases", "run_id, holder", result["optimization_id"])
        server.stumbles = {stumble: [status]}
        with pytest.raises(WorkflowFailureError) as failed:
            await baseline_of(engines, climbing(server, name="alone"))
    assert "it has no batch API (" in str(failed.value.cause)
    assert "set execution.mode: direct, or auto" in str(failed.value.cause)


async def test_in_auto_mode_no_batch_begins_that_may_outlast_the_run(engines: Engines, tmp_path: Path) -> None:
    """Google has 48 hours for one."""
    async with asked_of(engines, "google", tmp_path) as server:
        for wall_time, batches in (("47h", 0), ("49h", 1)):
            spec = climbing(server, execution={"mode": "auto"}, budget={"wall_time": wall_time}, name=f"within-{wall_time}")
            await baseline_of(engines, spec)
            assert len(server.batches) == batches


async def test_a_batch_that_its_provider_loses_is_told_and_goes_again(engines: Engines, tmp_path: Path) -> None:
    async with batch_server(climber, tmp_path) as server:
        server.plans = [Plan(held=True, forget_after=1)]
        result = await baseline_of(engines, climbing(server))
    assert result["baseline_score"] is not None
    assert result["lost"]["samples"] == 12
    told = await rows(engines, "batches", "number, state, said", result["optimization_id"])
    assert told == [(1, "lost", "batch lost"), (2, "taken", "completed")]
    known = waiting_text(await BatchReader(engines.database).waiting(result["optimization_id"]), datetime.now(UTC))
    assert known == f"Batch batch_2 at {server.url} was lost by its provider; its 12 requests went again"


async def test_a_request_goes_eight_times_at_most(engines: Engines, tmp_path: Path) -> None:
    async with batch_server(climber, tmp_path) as server:
        server.plans = [Plan(statuses={0: 500}) for _ in range(20)]
        for plan in server.plans[1:]:
            plan.statuses = {0: 503}
        result = await baseline_of(engines, climbing(server, execution={"min_coverage": 0.5}))
    assert [len(server.requests_of(batch)) for batch in server.batches.values()] == [12, 1, 1, 1, 1, 1, 1, 1]
    [(errors, _)] = await rows(engines, "trials", "errors::text, coverage", result["optimization_id"])
    assert errors == '{"http 503": 1}'


async def test_a_batch_that_is_too_much_now_is_tried_later_and_one_that_is_refused_ends_the_run(
    engines: Engines, tmp_path: Path
) -> None:
    async with batch_server(climber, tmp_path) as server:
        server.plans = [Plan(ends="failed", error=("token_limit_exceeded", "Enqueued token limit reached"))]
        assert (await baseline_of(engines, climbing(server)))["baseline_score"] is not None
        assert server.paid.total() == 12
        server.plans = [Plan(ends="failed", error=("model_not_found", "The model does not exist"))]
        with pytest.raises(WorkflowFailureError) as failed:
            await baseline_of(engines, climbing(server))
    assert "it refused batch batch_" in str(failed.value.cause)
    assert "model_not_found The model does not exist" in str(failed.value.cause)


async def test_a_large_trial_is_split_and_a_limit_of_requests_is_kept(engines: Engines, tmp_path: Path) -> None:
    async with batch_server(climber, tmp_path) as server:
        spec = climbing(server, replicates=2)
        spec["execution"]["batches"]["requests"] = 10
        result = await baseline_of(engines, spec)
    assert [len(server.requests_of(batch)) for batch in server.batches.values()] == [10, 10, 4]
    assert result["spend"]["samples"] == 24


async def test_answers_that_are_there_are_not_asked_for_again(engines: Engines, tmp_path: Path) -> None:
    """Of a run that was asked at once, and of one that is started anew under its id."""
    async with batch_server(climber, tmp_path) as server:
        spec = climbing(server, "direct")
        first = await baseline_of(engines, spec)
        again = await engines.run(climbing(server, budget=ONE_TRIAL) | {"name": spec["name"]}, run_id=first["optimization_id"])
        assert again["baseline_score"] == first["baseline_score"]
        assert not server.batches


async def test_a_budget_sets_half_the_price_aside_and_sends_no_more_than_it_covers(engines: Engines, tmp_path: Path) -> None:
    """A request is bounded by its bytes and `max_tokens`; the answers take a fraction of it, and the rest is covered then."""
    async with batch_server(climber, tmp_path) as server:
        result = await baseline_of(engines, climbing(server, budget={"cost": 0.5}))
        sizes = [len(server.requests_of(batch)) for batch in server.batches.values()]
        assert sum(sizes) == 12
        assert 1 < len(sizes) < 12
        assert result["spend"]["cost"] == pytest.approx(12 * COST_OF_AN_ANSWER / 2)
    assert not await rows(engines, "budget_leases", "run_id, holder", result["optimization_id"])


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cancelled_run_cancels_its_batch_and_books_what_was_done(
    provider: str, engines: Engines, tmp_path: Path
) -> None:
    async with asked_of(engines, provider, tmp_path) as server:
        server.plans = [Plan(held=True, answers=7)]
        handle = await engines.start(climbing(server, budget=ONE_TRIAL | {"cost": 100.0}))
        await until(lambda: any(batch.looks > 1 for batch in server.batches.values()))
        waiting = waiting_text(await BatchReader(engines.database).waiting(handle.id), datetime.now(UTC))
        [batch] = server.batches.values()
        named, status = BATCHES[provider]
        assert waiting.startswith(f"It waits for batch {named} at {server.url}: {status}, ")
        assert " of 12 requests done, sent " in waiting
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        assert batch.status == "cancelled"
    assert len(await rows(engines, "answers", "item_hash, replicate", handle.id)) == 7
    [spent] = await rows(engines, "budgets", "spent_samples, spent_cost, lost_samples", handle.id)
    assert spent == (7, pytest.approx(7 * COST_OF_AN_ANSWER / 2), 0)
    assert not await rows(engines, "budget_leases", "run_id, holder", handle.id)


@pytest.mark.parametrize(("stumble", "keeps_metadata"), [("lost", True), ("lost", False), ("429", True)])
async def test_a_batch_is_made_once_although_nobody_heard_so(
    stumble: str, keeps_metadata: bool, engines: Engines, tmp_path: Path
) -> None:
    """Where a provider keeps no metadata, it is found by its file."""
    async with batch_server(climber, tmp_path) as server:
        server.keeps_metadata = keeps_metadata
        server.stumbles = {"make": [stumble], "upload": ["503"], "look": ["500"], "content": ["lost"]}
        result = await baseline_of(engines, climbing(server))
    assert result["baseline_score"] is not None
    assert len(server.batches) == 1
    assert set(server.paid.values()) == {1}


@pytest.mark.parametrize("provider", NATIVE)
async def test_a_native_batch_is_made_once_although_nobody_heard_so(provider: str, engines: Engines, tmp_path: Path) -> None:
    """Beside one of somebody else's that has as many requests."""
    async with asked_of(engines, provider, tmp_path) as server:
        stranger = a_stranger(server)
        server.plans = [Plan(looks=3)]
        server.stumbles = {"make": ["lost"], "look": ["500"], "content": ["lost"]}
        result = await baseline_of(engines, climbing(server))
    assert result["baseline_score"] is not None
    assert len(server.batches) == 2
    assert set(server.paid.values()) == {1}
    assert stranger.status != "cancelled"
    [(name,)] = await rows(engines, "batches", "provider_id", result["optimization_id"])
    assert name.endswith("batch_2")


@pytest.mark.parametrize("provider", NATIVE)
async def test_a_native_batch_that_is_lost_or_too_much_now_goes_again(provider: str, engines: Engines, tmp_path: Path) -> None:
    """Anthropic refuses no batch as a whole once it is made."""
    async with asked_of(engines, provider, tmp_path) as server:
        server.plans = [Plan(held=True, forget_after=1)]
        result = await baseline_of(engines, climbing(server))
        assert result["lost"]["samples"] == ALL
        if provider == "google":
            server.plans = [Plan(ends="failed", error=("8", "quota")), Plan(ends="expired", answers=0), Plan()]
            result = await baseline_of(engines, climbing(server))
            told = await rows(engines, "batches", "number, state, said", result["optimization_id"])
            assert [said for _, _, said in told] == ["failed", "expired", "succeeded"]
            server.plans = [Plan(ends="failed", error=("5", "no such model"))]
            with pytest.raises(WorkflowFailureError) as failed:
                await baseline_of(engines, climbing(server))
            assert "it refused batch batches/batch_" in str(failed.value.cause)
    assert set(server.paid.values()) <= {1, 2}


def a_stranger(server: BatchedProvider) -> Batch:
    """A batch of somebody else's, with as many requests, that takes its time."""
    server.plans = [Plan(looks=4)]
    if server.provider == "anthropic":
        params = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "text", "text": "1 2"}]}]}
        return server.begun(requests=[{"custom_id": f"theirs{n}", "params": params} for n in range(ALL)])
    asked = {"contents": [{"role": "user", "parts": [{"text": "1 2"}]}]}
    requests = [{"metadata": {"key": f"theirs{n}"}, "request": asked, "model": "m"} for n in range(ALL)]
    return server.begun(requests=requests, metadata={"name": "theirs"})


async def test_a_day_of_waiting_is_a_timer_and_few_events(tmp_path: Path) -> None:
    """On a server that skips time: a batch that takes longer than a day, expires in part, and goes again."""
    async with (
        embedded_stack(tmp_path / "stack", ui=False, time_skipping=True) as stack,
        batch_server(climber, tmp_path) as server,
        AsyncExitStack() as exits,
    ):
        client = await connect(stack.temporal_address)
        settings = Settings(stack.database_url, operator=OPERATOR, plugins="plugged", plugin_path=PLUGINS)
        await exits.enter_async_context(serving(client, settings))
        server.plans = [Plan(looks=77)]
        slow = climbing(server, budget=ONE_TRIAL, execution={"batches": {}})
        await client.workflow_service.start_workflow_execution(
            StartWorkflowExecutionRequest(
                namespace=stack.namespace,
                workflow_id="a-day",
                workflow_type=WorkflowType(name="OptimizationWorkflow"),
                task_queue=TaskQueue(name="optimization"),
                input=Payloads(payloads=await client.data_converter.encode([slow])),
                time_skipping_config=TimeSkippingConfig(enabled=True),
            )
        )
        result: dict[str, Any] = await client.get_workflow_handle("a-day").result()
        trials = [trial async for trial in client.list_workflows("WorkflowType = 'TrialWorkflow'")]
        events = [event async for event in client.get_workflow_handle(trials[0].id).fetch_history_events()]
    assert result["baseline_score"] is not None
    waited = events[-1].event_time.ToDatetime() - events[0].event_time.ToDatetime()
    assert timedelta(hours=23) < waited < timedelta(hours=26)
    of_time_skipping = [event for event in events if "TIME_SKIPPING" in EventType.Name(event.event_type)]
    assert len(events) - len(of_time_skipping) <= 40
