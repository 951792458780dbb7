"""Async plug-ins run in a loop of their own: one that blocks it holds up neither its worker nor, for long, anybody else."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from activities.plugins.calls import PluginCalls
from activities.plugins.loops import LoopBlocked, PluginLoops, TimeIsOver
from activities.plugins.threads import RaisedCancelledError
from tests.support import evaluation_plugins
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import samples, scored_by, shard, suite
from workflows.model.suite import Outcome

pytestmark = pytest.mark.usefixtures("measured_runs")

LONGEST_BLOCK = 0.3


@pytest.fixture
def loops() -> PluginLoops:
    return PluginLoops(LONGEST_BLOCK)


@pytest.fixture(autouse=True)
def fresh_plugins() -> None:
    evaluation_plugins.calls.clear()


async def _at_once() -> str:
    return "answered"


async def _block(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251


class TestALoop:
    async def test_what_is_called_gives_its_answer_or_its_error(self, loops: PluginLoops) -> None:
        async def fail() -> None:
            raise KeyError("label")

        async def exit_() -> None:
            raise SystemExit(3)

        async def cancel() -> None:
            raise asyncio.CancelledError

        loop = loops.of("pkg:answer")
        assert await loop.run(_at_once) == "answered"
        for call, error in ((fail, KeyError), (exit_, SystemExit), (cancel, RaisedCancelledError)):
            with pytest.raises(error):
                await loop.run(call)
        assert await loop.run(_at_once) == "answered"

    async def test_it_is_not_the_workers_and_one_for_a_whole_package(self, loops: PluginLoops) -> None:
        async def where() -> str:
            return threading.current_thread().name

        mine = threading.current_thread().name
        there = [await loops.of(reference).run(where) for reference in ("pkg.a:x", "pkg.b:y", "other:z")]
        assert there[0] == there[1] != there[2]
        assert mine not in there

    async def test_its_time_counts_from_when_it_begins(self, loops: PluginLoops) -> None:
        loop = loops.of("pkg:answer")
        blocking = asyncio.ensure_future(loop.run(lambda: _block(0.2)))
        await asyncio.sleep(0.01)
        assert await loop.run(_at_once, 0.1) == "answered"
        await blocking

    async def test_a_call_that_takes_too_long_is_cancelled(self, loops: PluginLoops) -> None:
        ended = asyncio.Event()
        here = asyncio.get_running_loop()

        async def hang() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                here.call_soon_threadsafe(ended.set)

        with pytest.raises(TimeIsOver):
            await loops.of("pkg:answer").run(hang, 0.05)
        async with asyncio.timeout(30):
            await ended.wait()

    async def test_so_is_one_whose_caller_is(self, loops: PluginLoops) -> None:
        ended = asyncio.Event()
        here = asyncio.get_running_loop()

        async def hang() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                here.call_soon_threadsafe(ended.set)

        calling = asyncio.ensure_future(loops.of("pkg:answer").run(hang))
        await asyncio.sleep(0.05)
        calling.cancel()
        async with asyncio.timeout(30):
            await ended.wait()

    async def test_one_that_blocks_is_named_with_the_place(self, loops: PluginLoops) -> None:
        with pytest.raises(TimeIsOver, match=r"test_loops.py:\d+ \(_block\) blocks the event loop of pkg: await what"):
            await loops.of("pkg:answer").run(lambda: _block(4.0), 0.5)

    async def test_one_that_blocks_before_its_loop_was_ever_seen_to_turn_is_named_with_the_place(
        self, loops: PluginLoops, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loop = loops.of("pkg:answer")
        monkeypatch.setattr(loop, "_turn", lambda: None)
        with pytest.raises(TimeIsOver, match=r"test_loops.py:\d+ \(_block\) blocks the event loop of pkg"):
            await loop.run(lambda: _block(1.0), 0.5)

    async def test_those_behind_it_are_told_and_those_of_others_notice_nothing(self, loops: PluginLoops) -> None:
        loop = loops.of("pkg:answer")
        blocking = asyncio.ensure_future(loop.run(lambda: _block(1.0)))
        await asyncio.sleep(0.01)
        behind = asyncio.ensure_future(loop.run(_at_once))
        assert await loops.of("other:answer").run(_at_once) == "answered"
        assert not blocking.done()
        with pytest.raises(LoopBlocked, match="blocks the event loop of pkg"):
            await behind
        assert loop.blocks
        await blocking
        assert await loop.run(_at_once) == "answered"

    async def test_one_that_waits_inside_is_told_when_its_time_is_over(self, loops: PluginLoops) -> None:
        async def wait() -> None:
            await asyncio.sleep(0.2)

        loop = loops.of("pkg:answer")
        waiting = asyncio.ensure_future(loop.run(wait, 0.6))
        await asyncio.sleep(0.05)
        blocking = asyncio.ensure_future(loop.run(lambda: _block(1.5)))
        with pytest.raises(LoopBlocked):
            await waiting
        await blocking


class TestAShard:
    async def outcomes(self, run: MeasuredRun, pairs: int) -> dict[str, Outcome]:
        async with AsyncExitStack() as exits:
            calls = PluginCalls(loops=PluginLoops(LONGEST_BLOCK))
            exits.callback(calls.loops.close)
            evaluating = await exits.enter_async_context(evaluation(run, calls=calls))
            await activity_environment().run(evaluating.evaluate_shard, shard(pairs))
        return await run.by_sample()

    async def test_a_target_that_blocks_does_not_block_the_worker(self) -> None:
        run = MeasuredRun(suite("blocking"), samples(2, blocks=2.0))
        longest, last, ticking = 0.0, time.monotonic(), True

        async def tick() -> None:
            nonlocal longest, last
            while ticking:
                await asyncio.sleep(0.01)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()

        ticker = asyncio.create_task(tick())
        assert {outcome.status for outcome in (await self.outcomes(run, 2)).values()} == {"answered"}
        ticking = False
        await ticker
        assert longest < 1.0

    async def test_samples_behind_one_that_blocks_are_answered_in_processes(self) -> None:
        blocks, others = samples(1, blocks=5.0), samples(6)[1:]
        run = MeasuredRun(suite("blocking", sample_timeout=timedelta(seconds=1)), [*blocks, *others])
        outcomes = await self.outcomes(run, 6)
        assert [outcomes[f"s{n}"].status for n in range(1, 6)] == ["answered"] * 5
        assert evaluation_plugins.calls == ["s0"]
        told = outcomes["s0"].error or ""
        assert told.startswith("took longer than the sample timeout of 1 s; evaluation_plugins.py:")
        assert "(blocking) blocks the event loop" in told

    async def test_a_target_and_a_scorer_share_what_belongs_to_their_loop(self) -> None:
        run = MeasuredRun(suite("makes_a_client", scorers=scored_by("uses_the_client")), samples(8))
        outcomes = await self.outcomes(run, 8)
        assert all(outcome.passed for outcome in outcomes.values())
