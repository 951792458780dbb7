"""A shard pays for every answer once, keeps what it has, and hands it back whatever happens."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError

from activities.concurrency.in_flight_limits import Caller, RunLimits
from activities.observation.call_observation import CallObservation
from activities.observation.worker_meters import WorkerMeters
from tests.support import evaluation_plugins
from tests.support.activity_attempts import activity_environment
from tests.support.counted import Counted
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import CONFIG_HASH, misbehaviours, samples, scored_by, shard, suite
from workflows.model.trial import ShardResult

pytestmark = pytest.mark.usefixtures("measured_runs")


@pytest.mark.parametrize("target", ["echo", "echo_async"])
async def test_every_pair_gets_an_outcome_with_its_score(target: str) -> None:
    run = MeasuredRun(suite(target), samples(30))
    async with evaluation(run) as evaluating:
        result = await activity_environment().run(evaluating.evaluate_shard, shard(30))
    assert result == ShardResult(evaluated=30)
    outcome = (await run.by_sample())["s7"]
    assert (outcome.status, outcome.output, outcome.scores, outcome.passed) == ("answered", "w7", {"exact": 1.0}, True)
    assert outcome.latency_ms is not None


async def test_only_what_is_missing_is_evaluated() -> None:
    run = MeasuredRun(suite("echo"), samples(10))
    async with evaluation(run) as evaluating:
        await activity_environment().run(evaluating.evaluate_shard, shard(4))
        evaluation_plugins.calls.clear()
        result = await activity_environment().run(evaluating.evaluate_shard, shard(10))
        again = await activity_environment().run(evaluating.evaluate_shard, shard(10))
    assert result == ShardResult(evaluated=6, found=4)
    assert again == ShardResult(found=10)
    assert sorted(evaluation_plugins.calls) == [f"s{n}" for n in range(4, 10)]


async def test_a_range_of_pairs_covers_its_replicates_and_no_others() -> None:
    run = MeasuredRun(suite("echo"), samples(4))
    async with evaluation(run) as evaluating:
        result = await activity_environment().run(
            evaluating.evaluate_shard, shard(7, first=2, replicates=3, first_replicate=10)
        )
    assert result.evaluated == 5
    assert sorted(await run.outcomes()) == [("s0", 12), ("s1", 10), ("s1", 11), ("s1", 12), ("s2", 10)]


async def test_outcomes_are_committed_while_the_shard_goes_on() -> None:
    quick, slow = samples(61)[1:], samples(1, seconds=60)
    run = MeasuredRun(suite("patient"), [*slow, *quick])
    async with evaluation(run) as evaluating:
        running = asyncio.ensure_future(activity_environment().run(evaluating.evaluate_shard, shard(61)))
        async with asyncio.timeout(30):
            while len(await run.outcomes()) < 60:
                await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()
        await asyncio.wait({running})
    assert await run.largest_batch() > 1, "what comes together is committed together"


async def test_a_store_that_goes_away_costs_no_second_answer() -> None:
    run = MeasuredRun(suite("echo"), samples(60))
    async with evaluation(run) as evaluating:
        run.database.refusals_left = 3
        running = asyncio.ensure_future(activity_environment().run(evaluating.evaluate_shard, shard(60)))
        result = await running
    assert result.evaluated == 60
    assert len(await run.outcomes()) == 60
    assert len(evaluation_plugins.calls) == 60


async def test_a_store_that_goes_away_in_the_middle_is_waited_for() -> None:
    run = MeasuredRun(suite("patient"), samples(40, seconds=0.02))
    async with evaluation(run) as evaluating:
        running = asyncio.ensure_future(activity_environment().run(evaluating.evaluate_shard, shard(40)))
        async with asyncio.timeout(30):
            while len(evaluation_plugins.calls) < 10:
                await asyncio.sleep(0.001)
        run.database.refusals_left = 4
        assert (await running).evaluated == 40
    assert len(await run.outcomes()) == 40
    assert len(evaluation_plugins.calls) == 40


async def test_a_store_that_refuses_for_good_fails_the_attempt() -> None:
    run = MeasuredRun(suite("patient"), samples(100, seconds=0.02))
    async with evaluation(run) as evaluating:
        running = asyncio.ensure_future(activity_environment().run(evaluating.evaluate_shard, shard(100)))
        await asyncio.sleep(0)
        while not evaluation_plugins.calls:
            await asyncio.sleep(0.001)
        async with run.database.refusing_rows("answers"):
            with pytest.raises(ApplicationError, match="refuses this for good") as raised:
                await running
    assert raised.value.non_retryable
    assert len(evaluation_plugins.calls) < 100


async def test_all_shards_of_a_run_share_its_limit() -> None:
    run = MeasuredRun(suite("patient"), samples(40, seconds=0.01))
    async with evaluation(run) as evaluating:
        ranges = [shard(first + 10, first=first, concurrent_samples=4) for first in (0, 10, 20, 30)]
        await asyncio.gather(*[activity_environment().run(evaluating.evaluate_shard, one) for one in ranges])
    assert evaluation_plugins.most_in_flight == 4


async def test_the_limit_follows_an_adjustment_while_the_shard_runs() -> None:
    run = MeasuredRun(suite("patient"), samples(60, seconds=0.02), limits={"concurrent_samples": 12})
    limits = RunLimits(run.store.runs.adjusted_limits, interval=0.02)
    async with evaluation(run, limits=limits) as evaluating:
        await activity_environment().run(evaluating.evaluate_shard, shard(60, concurrent_samples=2))
    assert evaluation_plugins.most_in_flight == 12


async def test_calls_fill_all_the_places_that_they_may_take() -> None:
    run = MeasuredRun(suite("patient"), samples(304, seconds=0.05))
    async with evaluation(run) as evaluating:
        await activity_environment().run(evaluating.evaluate_shard, shard(304, concurrent_samples=16))
    assert evaluation_plugins.most_in_flight == 16
    assert len(evaluation_plugins.calls) == len(await run.outcomes()) == 304


async def test_heartbeats_come_by_the_clock_and_stop_with_the_activity() -> None:
    run = MeasuredRun(suite("patient"), samples(1, seconds=30))
    environment = activity_environment(heartbeat_timeout=timedelta(seconds=0.15))
    beats: list[float] = []
    enough = asyncio.Event()

    def heard_one(*details: object) -> None:
        beats.append(time.monotonic())
        if len(beats) >= 5:
            enough.set()

    environment.on_heartbeat = heard_one
    async with evaluation(run) as evaluating:
        running = asyncio.ensure_future(environment.run(evaluating.evaluate_shard, shard(1)))
        await enough.wait()
        environment.cancel()
        await running
    heard = len(beats)
    await asyncio.sleep(0.12)
    assert len(beats) == heard


class TestCancellation:
    async def test_a_cancelled_shard_hands_back_what_it_has(self) -> None:
        run = MeasuredRun(suite("patient"), [*samples(10), *samples(60, seconds=30)[10:]])
        environment = activity_environment()
        async with evaluation(run) as evaluating:
            running = asyncio.ensure_future(environment.run(evaluating.evaluate_shard, shard(60, concurrent_samples=20)))
            await _called(30)
            environment.cancel()
            result = await running
        assert result.evaluated == 10
        assert result.missing == 50
        assert len(await run.outcomes()) == 10
        assert len(evaluation_plugins.calls) <= 31

    async def test_what_it_leaves_behind_is_counted(self, counted: Counted) -> None:
        run = MeasuredRun(suite("patient"), [*samples(2), *samples(6, seconds=30)[2:]])
        environment = activity_environment()
        async with evaluation(run, observation=CallObservation(WorkerMeters(counted.meter))) as evaluating:
            running = asyncio.ensure_future(environment.run(evaluating.evaluate_shard, shard(6, concurrent_samples=3)))
            await _called(5)
            environment.cancel()
            await running
            await activity_environment().run(evaluating.evaluate_shard, shard(2))
        sums = counted.sums()
        assert sums["ratchet_answers", "python", "answered"] == sums["ratchet_scores", "scored"] == 2
        assert sums["ratchet_answers_missing",] == 4
        assert sums["ratchet_lost_calls",] == 3
        assert sums["ratchet_answers_found",] == 2
        assert sums["ratchet_call_duration_seconds", "python", "given_up"] > 0

    async def test_calls_that_are_nearly_done_are_let_finish(self) -> None:
        run = MeasuredRun(suite("patient"), samples(8, seconds=0.2))
        environment = activity_environment()
        async with evaluation(run) as evaluating:
            running = asyncio.ensure_future(environment.run(evaluating.evaluate_shard, shard(8)))
            await _called(8)
            environment.cancel()
            result = await running
        assert result.evaluated == 8
        assert len(await run.outcomes()) == 8

    async def test_a_stopping_worker_commits_and_lets_another_one_go_on(self) -> None:
        run = MeasuredRun(suite("patient"), samples(8, seconds=0.2))
        environment = activity_environment()
        async with evaluation(run) as evaluating:
            running = asyncio.ensure_future(environment.run(evaluating.evaluate_shard, shard(8)))
            await _called(8)
            environment.cancel(ActivityCancellationDetails(worker_shutdown=True))
            with pytest.raises(asyncio.CancelledError):
                await running
        assert len(await run.outcomes()) == 8

    async def test_a_second_cancellation_does_not_interrupt_the_first(self) -> None:
        run = MeasuredRun(suite("patient"), samples(8, seconds=0.3))
        environment = activity_environment()
        async with evaluation(run) as evaluating:
            running = asyncio.ensure_future(environment.run(evaluating.evaluate_shard, shard(8)))
            await _called(8)
            environment.cancel()
            await asyncio.sleep(0.05)
            running.cancel()
            for task in environment._activities:
                task.cancel()
            await asyncio.wait({running})
            async with asyncio.timeout(30):
                while len(await run.outcomes()) < 8:
                    await asyncio.sleep(0.01)

    async def test_the_run_limit_is_free_again_afterwards(self) -> None:
        run = MeasuredRun(suite("patient"), samples(40, seconds=5))
        limits = RunLimits()
        environment = activity_environment()
        async with evaluation(run, limits=limits) as evaluating, limits.of(Caller("run"), 4) as room:
            running = asyncio.ensure_future(environment.run(evaluating.evaluate_shard, shard(40)))
            await _called(4)
            environment.cancel()
            await running
            async with asyncio.timeout(30):
                for _ in range(4):
                    await room.acquire()


class TestTheCandidatesFaults:
    async def test_each_is_an_outcome_that_says_why(self) -> None:
        expected = {
            "raise": "target raised ValueError: no such ticket",
            "exit": "target raised SystemExit: 3",
            "interrupt": "target raised KeyboardInterrupt",
            "cancel": "target raised CancelledError",
            "nothing": "target returned nothing",
            "class": "target returned a type",
            "nan": "cost=nan",
            "nan inside": "inf is not a finite number",
            "negative tokens": "tokens=-1",
            "set": "set is not a JSON value",
            "other overlay": f"instead of {CONFIG_HASH[:4]}",
            "huge": "more than 1,048,576 characters",
        }
        for target in ("misbehaving", "misbehaving_async"):
            run = MeasuredRun(suite(target), misbehaviours(*expected, "fine"))
            async with evaluation(run) as evaluating:
                result = await activity_environment().run(evaluating.evaluate_shard, shard(len(expected) + 1))
            outcomes = await run.by_sample()
            assert result.evaluated == len(expected) + 1
            assert result.first_error is not None
            assert result.first_error.startswith("sample s0: target raised ValueError: no such ticket\n")
            for number, (how, text) in enumerate(expected.items()):
                outcome = outcomes[f"s{number}"]
                assert outcome.status == "failed", how
                assert outcome.error is not None
                assert text in outcome.error
                assert outcome.feedback == outcome.error.partition("\n")[0]
                assert (outcome.scores, outcome.passed) == ({}, False)
            assert outcomes[f"s{len(expected)}"].passed

    async def test_one_that_takes_too_long_fails_and_the_others_are_answered(self) -> None:
        hanging = samples(1, hang=True)
        run = MeasuredRun(suite("hanging", sample_timeout=timedelta(seconds=0.2)), [*hanging, *samples(9)[1:]])
        async with evaluation(run) as evaluating:
            result = await activity_environment().run(evaluating.evaluate_shard, shard(9))
        evaluation_plugins.release.set()
        assert result.evaluated == 9
        assert (await run.by_sample())["s0"].error == "took longer than the sample timeout of 0.2 s"
        assert sum(outcome.passed for outcome in (await run.outcomes()).values()) == 8

    async def test_an_async_target_that_ignores_its_cancellation_is_abandoned(self) -> None:
        run = MeasuredRun(
            suite("misbehaving_async", sample_timeout=timedelta(seconds=0.1)), misbehaviours("ignore cancellation", "fine")
        )
        async with evaluation(run) as evaluating:
            result = await activity_environment().run(evaluating.evaluate_shard, shard(2))
        evaluation_plugins.release.set()
        assert result.evaluated == 2
        assert "longer than" in ((await run.by_sample())["s0"].error or "")

    async def test_changing_the_configuration_changes_it_for_nobody_else(self) -> None:
        run = MeasuredRun(suite("misbehaving"), misbehaviours(*["changes its configuration"] * 5))
        async with evaluation(run) as evaluating:
            await activity_environment().run(evaluating.evaluate_shard, shard(5))
        assert {outcome.status for outcome in (await run.outcomes()).values()} == {"answered"}

    async def test_what_the_target_reports_is_kept(self) -> None:
        run = MeasuredRun(suite("everything", scorers=scored_by("perfect")), samples(2))
        async with evaluation(run) as evaluating:
            await activity_environment().run(evaluating.evaluate_shard, shard(2, seed=5))
        one, two = (await run.by_sample())["s0"], (await run.by_sample())["s1"]
        assert (one.tokens, one.cached_tokens, one.cost, one.ttft_ms, one.trace) == (12, 5, 0.25, 3.0, {"steps": 2})
        assert one.output["configuration"] == {"a": 1}
        assert one.output["seed"] != two.output["seed"]


async def _called(times: int) -> None:
    async with asyncio.timeout(30):
        while len(evaluation_plugins.calls) < times:
            await asyncio.sleep(0.002)
