"""The clock of a run stands still while nobody serves it, and what was measured before the time was over counts.

Nights pass here by moving what is written of them; only a few seconds of a time budget really do.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowFailureError, WorkflowHandle

from clients.demo.model_server import simulated_model
from tests.support.engines import PLUGINS, Engines
from tests.support.graded_runs import SAYINGS, graded
from tests.support.replaying import nothing_differs
from tests.support.run_views import eventually

Spec = Callable[..., dict[str, Any]]

ROOT = Path(__file__).parents[3]
_numbers = itertools.count(1)


async def until(holds: Callable[[], Any]) -> Any:
    async with asyncio.timeout(90):
        while not (found := await holds()):
            await asyncio.sleep(0.05)
        return found


async def rows(engines: Engines, query: str, *values: Any) -> list[Any]:
    async with engines.database.connection() as connection:
        return list(await connection.fetch(query, *values))


async def a_night_passes(engines: Engines, run_id: str, queue: str) -> None:
    """For everything that is written of the run, and of who serves it."""
    async with engines.database.connection() as connection:
        night = timedelta(hours=8)
        await connection.execute("UPDATE runs SET started_at = started_at - $2::interval WHERE run_id = $1", run_id, night)
        await connection.execute("UPDATE schema_migrations SET applied_at = applied_at - $1::interval", night)
        await connection.execute(
            "UPDATE served_task_queues SET marked_at = marked_at - $2::interval WHERE task_queue LIKE $1 || '%'", queue, night
        )
        await connection.execute(
            "UPDATE unserved_times SET began_at = began_at - $2::interval, ended_at = ended_at - $2::interval"
            " WHERE task_queue LIKE $1 || '%'",
            queue,
            night,
        )


@asynccontextmanager
async def worker_process(engines: Engines, queue: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = os.environ | {
        "TEMPORAL_ADDRESS": engines.addresses.temporal_address,
        "DATABASE_URL": engines.addresses.database_url,
        "RATCHET_TASK_QUEUE": queue,
        "RATCHET_PLUGINS": "plugged",
        "RATCHET_PLUGIN_PATH": str(PLUGINS),
    }
    command = [sys.executable, "-m", "worker", "--grace", "1", "--log-file", str(log)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def timers(handle: WorkflowHandle[Any, Any], *, fired: bool = True) -> int:
    """How many have fired, or were started."""
    wanted = EventType.EVENT_TYPE_TIMER_FIRED if fired else EventType.EVENT_TYPE_TIMER_STARTED
    history = await handle.fetch_history()
    return sum(1 for event in history.events if event.event_type == wanted)


async def _more_than_one(counted: Awaitable[int]) -> bool:
    return await counted > 1


async def test_a_night_without_workers_ends_nothing_and_loses_no_trial(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    """All workers are killed in the middle of a trial, whose time is over long before another one comes."""
    gate = tmp_path / "gate"
    queue = f"sleeping-{next(_numbers)}"
    asked = spec(
        configuration={**spec()["configuration"], "gate": str(gate)},
        target={"kind": "python", "ref": "plugged:waits_for_a_file"},
        budget={"wall_time": "20s"},
        stop={"max_rounds": 2, "no_improvement": 0},
    )
    async with worker_process(engines, queue, tmp_path / "first.log") as worker:
        serves = "SELECT 1 FROM served_task_queues WHERE task_queue = $1"
        await until(lambda: rows(engines, serves, f"{queue}-evaluation"))
        handle = await engines.client.start_workflow("OptimizationWorkflow", asked, id=queue, task_queue=queue)
        running = "SELECT trial_id FROM trials WHERE run_id = $1 AND status = 'running'"
        [trial] = await until(lambda: rows(engines, running, handle.id))
        child = engines.client.get_workflow_handle(trial["trial_id"])
        await until(lambda: timers(child, fired=False))
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
    await until(lambda: timers(child))
    await a_night_passes(engines, handle.id, queue)
    gate.touch()
    async with worker_process(engines, queue, tmp_path / "second.log"):
        result = await handle.result()
    await nothing_differs(engines.database, handle.id)
    assert (result["status"], result["stop_reason"]) == ("completed", "max_rounds")
    assert result["best_score"] > result["baseline_score"]
    ended = await rows(engines, "SELECT status, coverage FROM trials WHERE run_id = $1", handle.id)
    assert [tuple(row) for row in ended] == [("completed", 1.0)] * 3
    [row] = await rows(engines, "SELECT (result #>> '{ending,paused_for}')::interval FROM runs WHERE run_id = $1", handle.id)
    assert row[0] >= timedelta(hours=8)


async def test_candidates_that_were_measured_in_time_count_when_another_one_is_cut_off(
    engines: Engines, spec: Spec, tmp_path: Path
) -> None:
    x = {"value": 10, "change": "structured", "type": "integer", "min": 10, "max": 1000, "step": 10}
    result = await engines.run(
        spec(
            configuration={"x": x, "unit": "metre", "gate": str(tmp_path / "gate")},
            target={"kind": "python", "ref": "plugged:hangs_for_one"},
            optimizer={"name": "refine", "proposer": {"kind": "step"}, "candidates_per_round": 4},
            budget={"wall_time": "10s"},
        )
    )
    assert (result["status"], result["stop_reason"]) == ("completed", "time_budget")
    assert result["counts"]["stopped"] == 1
    assert result["best_score"] > result["baseline_score"]
    ended = await rows(engines, "SELECT status FROM trials WHERE run_id = $1 AND round = 1", result["optimization_id"])
    finished, cut_off = sorted(row["status"] for row in ended)[:-1], max(row["status"] for row in ended)
    assert set(finished) == {"completed"} and cut_off == "timeout"


async def test_a_trial_in_flight_learns_that_the_time_budget_was_raised(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    handle = await engines.start(
        spec(
            name="raised-time",
            configuration={**spec()["configuration"], "gate": str(gate)},
            target={"kind": "python", "ref": "plugged:waits_for_a_file"},
            budget={"wall_time": "5s"},
            stop={"max_rounds": 1, "no_improvement": 0},
        )
    )
    [trial] = await until(lambda: rows(engines, "SELECT trial_id FROM trials WHERE run_id = $1", handle.id))
    answer = await handle.execute_update("adjust", {"budget": {"wall_time": "1h"}})
    assert answer["message"] == "adjusted; trials in flight notice it within seconds"
    await until(lambda: _more_than_one(timers(engines.client.get_workflow_handle(trial["trial_id"]), fired=False)))
    gate.touch()
    result = await handle.result()
    assert (result["stop_reason"], result["counts"]["completed"]) == ("max_rounds", 2)


@pytest.mark.parametrize("before", ["1h", "0s"])
async def test_a_trial_in_flight_learns_that_the_time_budget_was_lowered(
    engines: Engines, spec: Spec, tmp_path: Path, before: str
) -> None:
    """Its old deadline is an hour away, or there is none; the target would wait for a file that never comes."""
    handle = await engines.start(
        spec(
            name=f"lowered-time-{before}",
            configuration={**spec()["configuration"], "gate": str(tmp_path / "gate")},
            target={"kind": "python", "ref": "plugged:waits_for_a_file"},
            budget={"wall_time": before},
        )
    )
    await until(lambda: rows(engines, "SELECT trial_id FROM trials WHERE run_id = $1", handle.id))
    await handle.execute_update("adjust", {"budget": {"wall_time": "1s"}})
    with pytest.raises(WorkflowFailureError):
        async with asyncio.timeout(90):
            await handle.result()
    [ended] = await rows(engines, "SELECT status, error FROM trials WHERE run_id = $1", handle.id)
    assert tuple(ended) == ("timeout", "the run's time budget is over")


async def test_a_time_budget_costs_a_run_no_events(engines: Engines, spec: Spec) -> None:
    async def events(**parts: Any) -> list[int]:
        """But for workflow tasks, of which there are more or fewer by chance."""
        result = await engines.run(spec(stop={"max_rounds": 2, "no_improvement": 0}, **parts))
        run_id = result["optimization_id"]
        trials = await rows(engines, "SELECT trial_id FROM trials WHERE run_id = $1", run_id)
        counted = []
        for workflow_id in (run_id, *(row["trial_id"] for row in trials)):
            history = await engines.client.get_workflow_handle(workflow_id).fetch_history()
            markers = [event for event in history.events if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED]
            counted.append(len(markers))
        return counted

    assert await events(name="timed", budget={"wall_time": "1h"}) == await events(name="untimed")


async def test_a_budget_below_what_is_spent_says_what_that_means(engines: Engines, spec: Spec) -> None:
    endless = {"max_rounds": 10_000, "no_improvement": 0}
    handle = await engines.start(spec(name="lowered", target={"kind": "python", "ref": "plugged:slow_hill"}, stop=endless))
    await eventually(lambda shown: shown["round"] >= 1, handle)
    answer = await handle.execute_update("adjust", {"budget": {"cost": 0.001}})
    assert answer["message"].startswith("adjusted; budget.cost is 0.001, and 0.0")
    assert answer["message"].endswith("nothing more is begun, and the run ends with what it has. Give more, or 0 for no limit")
    assert (await handle.result())["stop_reason"] == "cost_budget"


async def test_answers_that_are_scored_too_late_still_count(engines: Engines) -> None:
    """The judge says nothing until the time is over: by then every answer was there."""
    async with simulated_model() as server:
        server.simulate({"stall": True, "model": "simulated-judge"})
        handle = await engines.start(graded(server, name="late-judge", budget={"wall_time": "5s"}))
        [trial] = await until(lambda: rows(engines, "SELECT trial_id FROM trials WHERE run_id = $1", handle.id))
        await until(lambda: timers(engines.client.get_workflow_handle(trial["trial_id"])))
        server.reset()
        result = await handle.result()
        calls = server.stats()["calls"]
    assert (result["status"], result["stop_reason"]) == ("completed", "time_budget")
    assert result["baseline_score"] == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert result["spend"]["samples"] == len(SAYINGS)
    assert calls == len(SAYINGS), "only the judge is asked after that"
