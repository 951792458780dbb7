"""Python targets in warm processes: work that keeps a processor busy, ends on time, and dies alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psutil
import pytest
from pydantic import ValidationError

from activities.plugins.isolation import IsolatedFault
from activities.plugins.loader import Plugins
from activities.plugins.processes import WarmProcesses
from ratchet import ExperimentContext, Sample
from ratchet._text.explanation import explain
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import PLUGINS, plugin, shard, suite
from workflows.model.spec.targets.python import PythonTarget

pytestmark = pytest.mark.usefixtures("measured_runs")

CONTEXT = ExperimentContext(id="run/r0/abc", name="run", overrides_tag="f" * 64, seed=7)


def pooled(**more: Any) -> PythonTarget:
    return PythonTarget.model_validate({"kind": "python", "ref": plugin("in_a_pool"), "pool": "process", **more})


def told(*does: Any) -> list[Sample]:
    return [Sample(f"s{n}", {"does": one, "word": "done"}, "done") for n, one in enumerate(does)]


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@asynccontextmanager
async def pool(processes: int = 1, **more: Any) -> AsyncIterator[Any]:
    warm = WarmProcesses(**more)
    try:
        yield warm.of(Plugins([PLUGINS]), plugin("in_a_pool"), processes)
    finally:
        await warm.close()


async def answer(pool: Any, does: Any = "tell", timeout: float = 20.0) -> Any:
    output = await pool.answer({"a": 1}, Sample("s0", {"does": does, "word": "done"}), CONTEXT, timeout)
    return output.value


async def gone(pids: set[int]) -> None:
    async with asyncio.timeout(10):
        while pids & children():
            await asyncio.sleep(0.02)


class TestThePool:
    async def test_a_process_serves_one_sample_after_another(self) -> None:
        async with pool() as processes:
            first, second = await answer(processes), await answer(processes)
        assert first["pid"] == second["pid"] != os.getpid()
        assert (first["served"], second["served"]) == (1, 2)

    async def test_so_many_processes_and_no_more_work_side_by_side(self) -> None:
        async with pool(2) as processes:
            told = await asyncio.gather(*(answer(processes) for _ in range(8)))
        assert len({one["pid"] for one in told}) == 2

    async def test_one_that_takes_too_long_is_killed_and_replaced(self) -> None:
        async with pool() as processes:
            before = await answer(processes)
            with pytest.raises(IsolatedFault, match=r"took longer than the sample timeout of 0\.3 s"):
                await answer(processes, "spin", timeout=0.3)
            await gone({before["pid"]})
            assert (await answer(processes))["pid"] != before["pid"]

    async def test_waiting_for_a_place_is_not_the_samples_time(self) -> None:
        async with pool() as processes:
            await answer(processes)
            busy = [answer(processes, 0.2, timeout=0.5) for _ in range(5)]
            assert all(one["pid"] for one in await asyncio.gather(*busy))

    async def test_one_that_dies_takes_only_its_own_sample_along(self) -> None:
        async with pool() as processes:
            await answer(processes)
            with pytest.raises(IsolatedFault, match="killed its process"):
                await answer(processes, "die")
            assert (await answer(processes))["served"] == 1

    async def test_a_sample_does_not_pay_for_what_an_earlier_one_left_behind(self) -> None:
        async with pool() as processes:
            mined = await answer(processes, "mine")
            assert (await answer(processes, 0.5))["pid"] != mined["pid"]

    async def test_one_that_raises_leaves_its_process_as_it_was(self) -> None:
        async with pool() as processes:
            before = await answer(processes)
            with pytest.raises(IsolatedFault, match="target raised ValueError: no") as raised:
                await answer(processes, "raise")
            assert raised.value.kind == "raised ValueError"
            assert (await answer(processes))["pid"] == before["pid"]

    async def test_idle_processes_end(self) -> None:
        async with pool(longest_idle=0.1) as processes:
            await gone({(await answer(processes))["pid"]})
            assert (await answer(processes))["served"] == 1

    async def test_closing_ends_them_all(self) -> None:
        async with pool(2) as processes:
            started = {one["pid"] for one in await asyncio.gather(*(answer(processes, 0.1) for _ in range(2)))}
            assert started <= children()
        assert not started & children()

    async def test_a_call_that_is_cancelled_is_really_ended(self) -> None:
        async with pool() as processes:
            pid = (await answer(processes))["pid"]
            before = sum(psutil.Process(pid).cpu_times()[:2])
            call = asyncio.create_task(answer(processes, "spin"))
            async with asyncio.timeout(30):
                while sum(psutil.Process(pid).cpu_times()[:2]) < before + 0.1:
                    await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await gone({pid})


class TestTheTarget:
    async def test_answers_come_from_other_processes_and_are_scored(self) -> None:
        run = MeasuredRun(suite(pooled(processes=2)), told(*["answer"] * 6))
        async with evaluation(run) as evaluating:
            result = await activity_environment().run(evaluating.evaluate_shard, shard(6))
        assert result.evaluated == 6
        assert {outcome.scores["exact"] for outcome in (await run.by_sample()).values()} == {1.0}

    async def test_every_fault_is_its_own_samples(self) -> None:
        run = MeasuredRun(
            suite(pooled(processes=2), sample_timeout=timedelta(seconds=1)),
            told("answer", "spin", "answer", "die", "answer", "raise", "huge", "answer"),
        )
        async with evaluation(run) as evaluating:
            await activity_environment().run(evaluating.evaluate_shard, shard(8))
        kinds = {name: outcome.error_class for name, outcome in (await run.by_sample()).items() if outcome.error_class}
        assert kinds == {"s1": "timeout", "s3": "process died", "s5": "raised ValueError", "s6": "unusable output"}
        assert ' in in_a_pool: raise ValueError("no")' in ((await run.by_sample())["s5"].error or "")

    async def test_nothing_is_left_when_the_worker_closes(self) -> None:
        before = children()
        run = MeasuredRun(suite(pooled(processes=2)), told(*["answer"] * 4))
        async with evaluation(run) as evaluating:
            await activity_environment().run(evaluating.evaluate_shard, shard(4))
            assert children() - before
        assert not children() - before

    def test_processes_without_a_pool_of_them_make_no_sense(self) -> None:
        with pytest.raises(ValidationError) as raised:
            pooled(pool="thread", processes=4)
        assert "add pool: process, or remove processes" in explain(raised.value)[0]
