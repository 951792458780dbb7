"""What is known of a trial when it is over, whatever ended it; nothing but a fully measured trial has a score."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugins
from tests.support import evaluation_plugins
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import CONFIG_HASH, misbehaviours, plugin, samples, scored_by, shard, suite, trial
from workflows.model.failures import without_traceback
from workflows.model.spec.objective import Objective
from workflows.model.trial import Conclusion, Purpose, ShardResult, TrialResult

pytestmark = pytest.mark.usefixtures("measured_runs")


async def concluded(run: MeasuredRun, conclusion: Conclusion, *, answered: int | None = None) -> TrialResult:
    """Evaluate so many pairs, then conclude."""
    async with evaluation(run) as evaluating:
        if answered is not None:
            await activity_environment().run(evaluating.evaluate_shard, shard(answered))
        return await activity_environment().run(evaluating.conclude_trial, conclusion)


async def test_a_trial_that_was_measured_has_its_score_and_its_numbers() -> None:
    run = MeasuredRun(suite("misbehaving"), misbehaviours("a", "b", "c", "raise"))
    result = await concluded(run, Conclusion(trial=trial(4)), answered=4)
    assert (result.status, result.objective_score, result.failure, result.error) == ("completed", 0.75, None, None)
    assert (result.summary.total, result.summary.passed, result.summary.failed, result.summary.pass_rate) == (4, 3, 1, 0.75)
    assert (result.coverage, result.paid_samples) == (1.0, 4)
    assert (result.optimization_id, result.experiment_id, result.mask_id) == ("run", "run/r0/abc", CONFIG_HASH)
    assert await run.recorded() == [("completed", 0.75, [1.0, 1.0, 1.0, 0.0])]


async def test_costs_and_tokens_are_added_up() -> None:
    run = MeasuredRun(suite("everything"), samples(4))
    result = await concluded(run, Conclusion(trial=trial(4)), answered=4)
    assert (result.paid_tokens, result.paid_cost) == (48, 1.0)
    async with run.database.connection() as connection:
        counted = "SELECT r.cached_tokens, t.cached_tokens FROM runs r JOIN trials t USING (run_id)"
        assert [tuple(row) for row in await connection.fetch(counted)] == [(20, 20)]
    assert result.summary.avg_ttft_ms == 3.0


async def test_its_duration_counts_from_the_workflows_start() -> None:
    started = datetime.now(UTC) - timedelta(seconds=3)
    result = await concluded(MeasuredRun(suite("echo"), samples(1)), Conclusion(trial=trial(1), started_at=started), answered=1)
    assert 3000 <= result.duration_ms < 8000


class TestCoverage:
    async def test_below_the_limit_the_trial_failed_and_shows_the_first_error(self) -> None:
        run = MeasuredRun(suite("echo"), samples(20))
        result = await concluded(run, Conclusion(trial=trial(20), error="sample s18: HTTP 500"), answered=18)
        assert (result.status, result.failure, result.objective_score) == ("failed", "execution", None)
        assert result.coverage == 0.9
        assert result.error == (
            "only 18 of 20 samples have an answer (90.0%), at least 95.0% are needed; first error: sample s18: HTTP 500"
        )

    async def test_at_the_limit_it_counts(self) -> None:
        result = await concluded(MeasuredRun(suite("echo"), samples(20)), Conclusion(trial=trial(20)), answered=19)
        assert (result.status, result.objective_score, result.coverage) == ("completed", 1.0, 0.95)

    async def test_nothing_at_all_is_a_failed_trial(self) -> None:
        result = await concluded(MeasuredRun(suite("echo"), samples(5)), Conclusion(trial=trial(5)))
        assert (result.status, result.coverage) == ("failed", 0.0)


class TestEnds:
    @pytest.mark.parametrize("ended", ["cancelled", "timeout"])
    async def test_a_trial_cut_off_keeps_what_it_has_and_has_no_score(self, ended: Any) -> None:
        run = MeasuredRun(suite("echo"), samples(5))
        result = await concluded(run, Conclusion(trial=trial(5), ended=ended, error="cut off"), answered=3)
        assert (result.status, result.objective_score, result.error) == (ended, None, "cut off")
        assert (result.summary.total, result.coverage, result.paid_samples) == (3, 0.6, 3)

    async def test_one_that_was_measured_in_full_counts_although_its_time_is_over(self) -> None:
        run = MeasuredRun(suite("echo"), samples(5))
        result = await concluded(run, Conclusion(trial=trial(5), ended="timeout", error="cut off"), answered=5)
        assert (result.status, result.objective_score, result.coverage, result.error) == ("completed", 1.0, 1.0, None)

    async def test_an_error_fails_it(self) -> None:
        run = MeasuredRun(suite("echo"), samples(5))
        result = await concluded(run, Conclusion(trial=trial(5), ended="error", error="HTTP 401"), answered=3)
        assert (result.status, result.failure, result.error, result.paid_samples) == ("failed", "execution", "HTTP 401", 3)

    async def test_a_scoring_error_fails_its_scoring(self) -> None:
        run = MeasuredRun(suite("echo"), samples(5))
        told = ShardResult(scoring_error="sample s1: scorer 'python' gave nan").scoring_error
        result = await concluded(run, Conclusion(trial=trial(5), scoring_error=told), answered=3)
        assert (result.status, result.failure, result.error) == ("failed", "scoring", told)


class TestTogetherWithTheOnlyShard:
    """A trial that fits into one shard is concluded by whoever answers it."""

    async def evaluated(self, run: MeasuredRun, conclusion: Conclusion) -> ShardResult:
        whole = shard(conclusion.trial.samples, concludes=conclusion)
        async with evaluation(run) as evaluating:
            return await activity_environment().run(evaluating.evaluate_shard, whole)

    async def test_it_is_what_concluding_afterwards_would_make_of_it(self) -> None:
        how = misbehaviours("a", "b", "raise", "c")
        together = await self.evaluated(MeasuredRun(suite("misbehaving"), how), Conclusion(trial=trial(4)))
        run = MeasuredRun(suite("misbehaving"), how)
        first_error = together.first_error
        assert first_error is not None
        assert first_error.startswith("sample s2: target raised ValueError: no such ticket\n")
        afterwards = await concluded(run, Conclusion(trial=trial(4), error=first_error), answered=4)
        assert together.trial is not None
        assert _but_for_time(together.trial) == _but_for_time(afterwards)

    async def test_scoring_that_broke_fails_it(self) -> None:
        run = MeasuredRun(suite("echo", scorers=scored_by("nan_score")), samples(3))
        result = await self.evaluated(run, Conclusion(trial=trial(3)))
        assert result.trial is not None
        assert (result.trial.status, result.trial.failure) == ("failed", "scoring")
        assert result.trial.error is not None and result.scoring_error is not None
        assert without_traceback(result.scoring_error) in result.trial.error
        assert "scorers failed on 3 of 3 answers, execution.max_failed_scores allows 1" in result.trial.error
        assert result.trial.paid_samples == 3

    async def test_a_store_that_goes_away_before_it_is_recorded_is_waited_for(self) -> None:
        run = MeasuredRun(suite("echo"), samples(3))
        run.database.refused_transactions_left = 2
        result = await self.evaluated(run, Conclusion(trial=trial(3)))
        assert result.trial is not None
        assert (result.trial.status, result.trial.objective_score) == ("completed", 1.0)
        assert await run.recorded() == [("completed", 1.0, [1.0, 1.0, 1.0])]

    async def test_one_that_was_cancelled_leaves_it_to_the_workflow(self) -> None:
        run = MeasuredRun(suite("patient"), samples(4, seconds=0.2))
        evaluation_plugins.calls.clear()
        environment = activity_environment()
        async with evaluation(run) as evaluating:
            whole = shard(4, concludes=Conclusion(trial=trial(4)))
            running = asyncio.ensure_future(environment.run(evaluating.evaluate_shard, whole))
            while not evaluation_plugins.calls:
                await asyncio.sleep(0.001)
            environment.cancel()
            result = await running
        assert (result.evaluated, result.trial, await run.recorded()) == (4, None, [])


class TestBaselines:
    async def test_one_that_mostly_raises_fails_with_the_first_error(self) -> None:
        run = MeasuredRun(suite("misbehaving"), misbehaviours("raise", "raise", "raise", "a", "b"))
        result = await concluded(run, Conclusion(trial=trial(5, purpose=Purpose.BASELINE)), answered=5)
        assert (result.status, result.failure) == ("failed", "execution")
        told, where = (result.error or "").split("\n")
        assert told == "3 of the baseline's 5 samples failed; first error: target raised ValueError: no such ticket"
        assert where.endswith('in misbehaving: raise ValueError("no such ticket")')

    @pytest.mark.parametrize("purpose", [Purpose.CANDIDATE, Purpose.CONFIRMATION])
    async def test_a_candidate_that_does_is_just_bad(self, purpose: Purpose) -> None:
        run = MeasuredRun(suite("misbehaving"), misbehaviours("raise", "raise", "raise", "a", "b"))
        result = await concluded(run, Conclusion(trial=trial(5, purpose=purpose)), answered=5)
        assert (result.status, result.objective_score) == ("completed", 0.4)

    async def test_one_of_which_half_fails_is_measured(self) -> None:
        run = MeasuredRun(suite("misbehaving"), misbehaviours("raise", "a"))
        result = await concluded(run, Conclusion(trial=trial(2, purpose=Purpose.BASELINE)), answered=2)
        assert (result.status, result.objective_score) == ("completed", 0.5)


class TestPythonObjectives:
    async def result(self, name: str) -> TrialResult:
        objective = Objective(kind="python", ref=plugin(name))
        run = MeasuredRun(suite("misbehaving", objective=objective), misbehaviours("a", "b", "c", "raise"))
        return await concluded(run, Conclusion(trial=trial(4)), answered=4)

    async def test_one_is_given_the_statistics(self) -> None:
        result = await self.result("share_of_passed")
        assert (result.status, result.objective_score) == ("completed", 0.75)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("nan_objective", "score is nan, which is not a finite number"),
            ("raising_objective", "ZeroDivisionError: no tokens"),
            ("refusing_objective", "ValueError: 0.75 is too good to be true"),
        ],
    )
    async def test_one_that_gives_no_number_fails_the_scoring(self, name: str, text: str) -> None:
        result = await self.result(name)
        assert (result.status, result.failure, result.objective_score) == ("failed", "scoring", None)
        assert text in (result.error or "")
        assert name in (result.error or "")

    async def test_one_looks_at_its_score_in_a_process_of_its_own_too(self) -> None:
        with pytest.raises(IsolatedFault, match="too good to be true"):
            await Isolation().call(
                Plugins(["tests"]), plugin("refusing_objective"), "objective", {"statistics": {"passed": 3, "outcomes": 4}}
            )


async def test_no_result_ever_carries_a_number_that_json_cannot() -> None:
    run = MeasuredRun(suite("everything"), samples(2))
    result = await concluded(run, Conclusion(trial=trial(2)), answered=2)
    assert all(math.isfinite(number) for number in result.summary.model_dump().values() if isinstance(number, float))


def _but_for_time(result: TrialResult) -> dict[str, Any]:
    return result.model_dump(exclude={"duration_ms": True, "unserved": True, "summary": {"avg_latency_ms"}})
