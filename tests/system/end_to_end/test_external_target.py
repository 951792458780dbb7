"""Targets that are an external experiment runner, over real HTTP: the reference runner of the examples, at its worst."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payloads, TimeSkippingConfig, WorkflowType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from activities.endpoints.endpoint_policy import note_allowed
from activities.endpoints.gate import Gates
from activities.endpoints.runner import Forgotten, Runners
from activities.settings import ALLOWED_FILE, RUNNER_URLS, Settings
from activities.targets.faults import Refused
from clients.embedded.stack import embedded_stack
from clients.temporal import connect
from ratchet import experiment_from_headers, experiment_from_input
from store.connection import Database
from tests.support.allowed import OPERATOR, lists_of
from tests.support.engines import PLUGINS, Engines
from tests.support.external_runners import ONE_TRIAL, runners, running
from worker import serving

Spec = Callable[..., dict[str, Any]]

ROOT = Path(__file__).parents[3]

_numbers = itertools.count(1)


async def stored(engines: Engines, run_id: str, what: str, table: str = "trials") -> list[Any]:
    async with engines.database.connection() as connection:
        return [row[0] for row in await connection.fetch(f"SELECT {what} FROM {table} WHERE run_id = $1", run_id)]


async def failed_baseline(engines: Engines, spec: dict[str, Any]) -> tuple[str, str]:
    """How the only trial ended, and its error."""
    handle = await engines.start(spec)
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "baseline_failed"
    [status], [error] = await stored(engines, handle.id, "status"), await stored(engines, handle.id, "error")
    return status, error


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_runner_runs_every_trial_once_and_says_when_it_is_done(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        told = {**target, "execution_params": {"region": "north", "n": 1.5}}
        result = await engines.run(spec(target=told, flags={"new": [True]}))
    assert result["status"] == "completed"
    assert result["best_score"] > result["baseline_score"] == pytest.approx(0.31)
    assert result["spend"] == {"samples": 5 * 8, "trials": 5, "tokens": 5 * 80, "cost": pytest.approx(5 * 8 * 0.001)}
    assert runner.asked["trigger"] == len(runner.experiments) == 5
    assert sorted(await stored(engines, result["optimization_id"], "experiment_id")) == sorted(runner.experiments)
    request = runner.experiments["experiment-1"].request
    assert request["optimization_id"] == result["optimization_id"]
    assert request["execution_params"] == {"region": "north", "n": 1.5}
    assert request["configuration"] == {"x": 10, "unit": "metre"}
    assert len(request["mask_id"]) == len(request["evaluation_suite_id"]) == 64
    assert request["candidate_id"] == "baseline" or request["candidate_id"].startswith("r0-")
    assert request["completion"]["signal"] == "experiment_finished"
    contexts = {experiment.request["mask_id"]: experiment.request["context"] for experiment in runner.experiments.values()}
    assert {context["parent_tag"] for context in contexts.values()} == {None, request["mask_id"]}
    for experiment in runner.experiments.values():
        by_headers = experiment_from_headers(experiment.headers)
        assert by_headers is not None and by_headers == experiment_from_input(experiment.request["context"])
    assert sorted(sample["id"] for sample in request["samples"]) == [f"s{n}" for n in range(8)]


async def test_the_signal_ends_the_waiting(engines: Engines, spec: Spec) -> None:
    """With a poll of an hour, only the signal can have ended it."""
    async with running(engines) as (_, target):
        patient = {**target, "poll": "1h", "longest_poll": "1h"}
        async with asyncio.timeout(20):
            result = await engines.run(spec(target=patient, budget=ONE_TRIAL))
    assert result["counts"]["completed"] == 1


async def test_a_lost_signal_is_made_up_for_by_asking(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        asking = {**target, "poll": "100ms", "execution_params": {"lose_signal": True, "finish_after_questions": 3}}
        result = await engines.run(spec(target=asking, budget=ONE_TRIAL))
    assert result["baseline_score"] == pytest.approx(0.31)
    assert runner.asked["status"] == 3


@pytest.mark.parametrize("wishes", [{"signals": 3}, {"signal_before_answer": True, "seconds": 0.3}])
async def test_signals_may_come_twice_and_before_anybody_knows_the_experiment(
    wishes: dict[str, Any], engines: Engines, spec: Spec
) -> None:
    async with running(engines) as (runner, target):
        result = await engines.run(spec(target={**target, "execution_params": wishes}, stop={"max_rounds": 2}))
    assert result["counts"]["completed"] == 3
    assert runner.asked["trigger"] == 3


async def test_foreign_and_late_signals_change_nothing(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        waits = {**target, "poll": "1h", "longest_poll": "1h", "execution_params": {"wait": True}}
        handle = await engines.start(spec(target=waits, budget=ONE_TRIAL))
        await until(lambda: len(runner.experiments) == 1)
        [trial_id] = await stored(engines, handle.id, "trial_id")
        trial = engines.client.get_workflow_handle(trial_id)
        strange: list[list[Any]] = [[], [7], [{"experiment_id": 7}], ["experiment-1"], [{"status": "completed"}], [b"\xff"]]
        strange += [[{"experiment_id": f"stranger-{n}", "status": "completed"}] for n in range(150)]
        for arguments in strange:
            await trial.signal("experiment_finished", args=arguments)
        await trial.signal("experiment_finished", {"experiment_id": "experiment-1", "status": "completed"})
        await until(lambda: runner.asked["status"] == 1)  # it was announced, is asked about, and goes on running
        runner.release.set()
        result = await handle.result()
    assert result["baseline_score"] == pytest.approx(0.31)
    assert runner.asked["status"] == 2


async def test_an_experiment_that_the_runner_forgot_is_an_orphan(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (_, target):
        forgotten = {**target, "execution_params": {"forget": True}, "poll": "100ms"}
        told = "orphaned_experiment: the runner does not know the experiment any more"
        assert await failed_baseline(engines, spec(target=forgotten)) == ("failed", told)


ITEM = {"id": "s0", "value": {"height": 1}}
BROKEN = {
    "html": ("html", "answered something that is not a JSON object: '<html>"),
    "no-items": ({"mask_id": "x"}, "the results have no list `items`, but None"),
    "an-item-that-is-text": ({"items": ["s0"]}, "items[0] is 's0'; give an object"),
    "an-item-without-id": ({"items": [{"value": 1}]}, "items[0].id is None"),
    "an-item-without-value": ({"items": [ITEM, {"id": "s1"}]}, "items[1] (sample s1) has neither value nor error"),
    "a-replicate-that-is-text": ({"items": [{**ITEM, "replicate": "0"}]}, "items[0].replicate is '0'"),
    "a-cursor-that-is-a-number": ({"items": [], "next": 3}, "`next` is 3"),
    "a-cursor-that-goes-in-circles": ({"items": [], "next": "a"}, "`next` is 'a'"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_results_that_cannot_be_read_are_an_aggregation_failure(name: str, engines: Engines, spec: Spec) -> None:
    broken, why = BROKEN[name]
    async with running(engines) as (_, target):
        breaks = {**target, "execution_params": {"broken_results": broken}, "patience": "1s"}
        status, error = await failed_baseline(engines, spec(target=breaks))
    assert status == "failed"
    assert error.startswith("AggregationFailed: ")
    assert why in error


async def test_results_that_are_broken_for_a_moment_are_read_again(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        breaks = {**target, "execution_params": {"break_results_times": 2}}
        result = await engines.run(spec(target=breaks, budget=ONE_TRIAL))
    assert result["baseline_score"] == pytest.approx(0.31)
    assert runner.asked["results"] == 3


async def test_results_come_in_pages(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        result = await engines.run(spec(target={**target, "execution_params": {"page": 3}}, budget=ONE_TRIAL, replicates=2))
    assert result["spend"]["samples"] == 16
    assert runner.asked["results"] == 6


@pytest.mark.parametrize(
    ("end", "status", "why"),
    [
        ("failed", "failed", "the experiment failed: out of disk"),
        ("cancelled", "cancelled", "the experiment was cancelled by its runner: out of disk"),
        ("timeout", "timeout", "the experiment ran out of its runner's time: out of disk"),
    ],
)
async def test_the_runners_status_is_the_trials(end: str, status: str, why: str, engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        ends = {**target, "execution_params": {"end_as": end, "error": "out of disk"}}
        assert await failed_baseline(engines, spec(target=ends)) == (status, why)
    assert runner.asked["cancel"] == 0


async def test_a_status_that_is_none_fails_the_trial(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (_, target):
        status, error = await failed_baseline(engines, spec(target={**target, "execution_params": {"end_as": "splendid"}}))
    assert status == "failed"
    assert "status is 'splendid'; give one of pending, running, completed, failed, cancelled, timeout" in error


async def test_items_of_another_overlay_never_score(engines: Engines, spec: Spec) -> None:
    def answer(configuration: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
        other = {"mask_id": "0" * 64} if sample["id"] in {"s0", "s1"} else {}
        return {**runners.answer(configuration, sample), **other}

    async with running(engines, answer=answer) as (_, target):
        result = await engines.run(spec(target=target, budget=ONE_TRIAL))
    assert result["baseline_score"] == pytest.approx(0.31 * 6 / 8)
    errors = [error for error in await stored(engines, result["optimization_id"], "error", "outcomes") if error]
    assert len(errors) == 2 and all(error.startswith("the target used overlay 0000") for error in errors)


async def test_samples_without_a_result_are_missing(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (_, target):
        skips = {**target, "execution_params": {"skip": ["s0", "s1", "s2"]}}
        status, error = await failed_baseline(engines, spec(target=skips))
    assert status == "failed"
    assert "only 5 of 8 samples have an answer" in error


async def test_the_runner_may_score_itself(engines: Engines, spec: Spec) -> None:
    reported = {"scorers": [{"kind": "reported", "name": "quality"}], "objective": {"metric": "quality"}}
    async with running(engines) as (_, target):
        result = await engines.run(spec(target=target, **reported, stop={"max_rounds": 2}))
        assert result["baseline_score"] == pytest.approx(0.31)
        named = [{"kind": "reported", "name": "quality", "key": "beauty"}]
        _, error = await failed_baseline(engines, spec(target=target, **{**reported, "scorers": named}))
    assert "AggregationFailed" in error
    assert "items[0].scores.beauty is None" in error


async def test_cancelling_the_run_cancels_the_experiment(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        handle = await engines.start(spec(target={**target, "execution_params": {"wait": True}}))
        await until(lambda: len(runner.experiments) == 1)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        assert [experiment.status for experiment in runner.experiments.values()] == ["cancelled"]
    assert await stored(engines, handle.id, "status") == ["cancelled"]


@pytest.mark.parametrize("limits", [{"budget": {"wall_time": "8s"}}, {"target": {"timeout": "1s"}}])
async def test_time_that_is_over_cancels_the_experiment(limits: dict[str, Any], engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        waits = {**target, "execution_params": {"wait": True}, **limits.get("target", {})}
        status, error = await failed_baseline(engines, spec(target=waits, budget=limits.get("budget", {})))
        assert [experiment.status for experiment in runner.experiments.values()] == ["cancelled"]
    assert status == "timeout"
    assert "time budget is over" in error or "took longer than 1 s" in error


async def test_a_trigger_whose_answer_is_lost_triggers_nothing_twice(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        result = await engines.run(spec(target={**target, "execution_params": {"lose_answer": True}}, budget=ONE_TRIAL))
    assert result["baseline_score"] == pytest.approx(0.31)
    assert runner.asked["trigger"] == 2
    assert len(runner.experiments) == 1


async def test_a_runner_that_is_away_for_a_moment_is_waited_for(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        runner.away = True
        handle = await engines.start(spec(target=target, budget=ONE_TRIAL))
        await asyncio.sleep(1.0)
        assert runner.experiments == {}
        runner.away = False
        assert (await handle.result())["baseline_score"] == pytest.approx(0.31)


async def test_a_runner_that_stays_away_fails_the_trial(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        runner.away = True
        status, error = await failed_baseline(engines, spec(target={**target, "patience": "1s"}))
    assert status == "failed"
    assert "HTTP 503" in error


async def test_samples_are_found_in_the_store_when_they_are_not_sent(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        refers = {**target, "samples": "reference", "execution_params": {"wait": True}}
        handle = await engines.start(spec(target=refers, budget=ONE_TRIAL, replicates=2))
        await until(lambda: len(runner.experiments) == 1)
        request = runner.experiments["experiment-1"].request
        assert request["samples"] is None
        where = request["samples_reference"]
        assert (where["count"], where["replicates"]) == (8, [0, 1])
        async with engines.database.connection() as connection:
            rows = await connection.fetch(
                f"SELECT * FROM {where['view']} WHERE run_id = $1 AND split = $2 ORDER BY position",
                where["run_id"],
                where["split"],
            )
        request["samples"] = [{"id": row["id"], "replicate": number} for row in rows for number in where["replicates"]]
        runner.release.set()
        result = await handle.result()
    assert result["spend"]["samples"] == 16


async def test_a_run_that_is_started_again_asks_for_new_experiments_only_where_answers_are_missing(
    engines: Engines, spec: Spec
) -> None:
    async with running(engines) as (runner, target):
        run_id = f"again-{next(_numbers)}"
        asked = spec(target=target, budget=ONE_TRIAL)
        first = await engines.run(asked, run_id=run_id)
        again = await engines.run(asked, run_id=run_id)
    assert first["baseline_score"] == again["baseline_score"]
    assert runner.asked["trigger"] == 1


async def test_a_killed_worker_triggers_nothing_twice(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    """kill -9 between trigger and completion; the signal comes while nobody is there to take it."""
    queue = f"killed-runner-{next(_numbers)}"
    environment = os.environ | {
        "TEMPORAL_ADDRESS": engines.addresses.temporal_address,
        "DATABASE_URL": engines.addresses.database_url,
        "RATCHET_TASK_QUEUE": queue,
        "RATCHET_PLUGINS": "plugged",
        "RATCHET_PLUGIN_PATH": str(PLUGINS),
    }

    async def start_worker() -> asyncio.subprocess.Process:
        log = str(tmp_path / "worker.log")
        command = [sys.executable, "-m", "worker", "--grace", "1", "--log-file", log]
        return await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment)

    worker = await start_worker()
    try:
        async with running(engines) as (runner, target):
            waits = {**target, "poll": "1h", "longest_poll": "1h", "execution_params": {"wait": True}}
            handle: WorkflowHandle[Any, Any] = await engines.client.start_workflow(
                "OptimizationWorkflow", spec(target=waits, budget=ONE_TRIAL), id=queue, task_queue=queue
            )
            await until(lambda: len(runner.experiments) == 1)
            worker.send_signal(signal.SIGKILL)
            await worker.wait()
            runner.release.set()
            await until(lambda: runner.experiments["experiment-1"].status == "completed")
            worker = await start_worker()
            result = await handle.result()
            assert result["baseline_score"] == pytest.approx(0.31)
            assert len(runner.experiments) == 1
            assert runner.asked["results"] == 1
    finally:
        worker.send_signal(signal.SIGTERM)
        await worker.wait()


async def test_days_of_asking_are_durable_timers(spec: Spec, tmp_path: Path) -> None:
    """On a server that skips time: a runner that takes days, and tells nobody when it is done."""
    async with embedded_stack(tmp_path / "stack", ui=False, time_skipping=True) as stack, AsyncExitStack() as exits:
        client = await connect(stack.temporal_address)
        await exits.enter_async_context(
            serving(client, Settings(stack.database_url, operator=OPERATOR, plugins="plugged", plugin_path=PLUGINS))
        )
        database = await Database.open(stack.database_url)
        exits.push_async_callback(database.close)
        runner, target = await exits.enter_async_context(running(Engines(stack, client, database)))
        wishes = {"lose_signal": True, "finish_after_questions": 8}
        slow = {**target, "poll": "2h", "longest_poll": "12h", "timeout": "10d", "execution_params": wishes}
        await client.workflow_service.start_workflow_execution(
            StartWorkflowExecutionRequest(
                namespace=stack.namespace,
                workflow_id="days",
                workflow_type=WorkflowType(name="OptimizationWorkflow"),
                task_queue=TaskQueue(name="optimization"),
                input=Payloads(payloads=await client.data_converter.encode([spec(target=slow, budget=ONE_TRIAL)])),
                time_skipping_config=TimeSkippingConfig(enabled=True),
            )
        )
        result: dict[str, Any] = await client.get_workflow_handle("days").result()
        assert result["baseline_score"] == pytest.approx(0.31)
        assert runner.asked["status"] == 8
        trials = [trial async for trial in client.list_workflows("WorkflowType = 'TrialWorkflow'")]
        events = [event async for event in client.get_workflow_handle(trials[0].id).fetch_history_events()]
        pauses = [event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta() for event in events]
        hours = [pause.total_seconds() / 3600 for pause in pauses if pause]
        assert hours == pytest.approx([2, 3, 4.5, 6.75, 10.125, 12, 12, 12])


class TestTheToken:
    """It comes from the worker's environment, and goes where the operator says, nowhere else."""

    async def test_it_is_sent_to_origins_that_are_listed(self) -> None:
        runner = runners.Runner(token="secret")
        async with runners.serving(runner) as url:
            environment = {"RATCHET_RUNNER_TOKEN": "secret", "RATCHET_RUNNER_URLS": f"https://other.example, {url}/"}
            asking = Runners(Gates(), lists_of(environment))
            with pytest.raises(Forgotten):
                await asking.status(url, "nobody", 1.0)
            await asking.close()

    async def test_one_on_this_machine_that_is_not_listed_is_not_even_called(self) -> None:
        runner = runners.Runner(token="secret")
        async with runners.serving(runner) as url:
            asking = Runners(Gates(), lists_of({"RATCHET_RUNNER_TOKEN": "secret"}))
            with pytest.raises(Refused, match="its operator can add it to RATCHET_RUNNER_URLS"):
                await asking.status(url, "nobody", 1.0)
            await asking.close()
        assert not runner.asked

    async def test_one_that_only_the_command_line_allowed_is_sent_no_token(self, tmp_path: Path) -> None:
        async with runners.serving(runners.Runner(token="secret")) as url:
            note_allowed(tmp_path / "allowed.json", {RUNNER_URLS: [url]})
            environment = {"RATCHET_RUNNER_TOKEN": "secret", ALLOWED_FILE: str(tmp_path / "allowed.json")}
            asking = Runners(Gates(), lists_of(environment))
            with pytest.raises(Refused, match="HTTP 401"):
                await asking.status(url, "nobody", 1.0)
            await asking.close()

    async def test_an_unknown_origin_elsewhere_is_not_even_called(self) -> None:
        environment = {"RATCHET_RUNNER_TOKEN": "secret", "RATCHET_RUNNER_URLS": "https://one.example"}
        asking = Runners(Gates(), lists_of(environment))
        with pytest.raises(Refused, match=r"does not know the runner https://two\.example; its operator can add it"):
            await asking.status("https://two.example/runner", "nobody", 1.0)
        await asking.close()

    @pytest.mark.parametrize("url", ["ftp://host", "host:80", "http://me:secret@host", "http://host/?q=1", "http:///path"])
    async def test_a_url_that_is_none_is_refused_with_its_field(self, url: str, engines: Engines, spec: Spec) -> None:
        handle = await engines.start(spec(target={"kind": "external", "url": url}))
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
        assert "target.url" in str(failed.value.cause)
