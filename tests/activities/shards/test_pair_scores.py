"""What scorers make of a shard's answers: failures, and answers that are scored anew."""

from __future__ import annotations

import pytest

from tests.support import evaluation_plugins
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import misbehaviours, samples, scored_by, shard, suite

pytestmark = pytest.mark.usefixtures("measured_runs")


class TestScoringFailures:
    @pytest.mark.parametrize(
        ("scorer", "text"),
        [
            ("nan_score", "gave nan, which is not a finite number"),
            ("raising_score", "raised KeyError: 'label'"),
            ("exiting_score", "raised SystemExit: 1"),
            ("text_score", "'good', which is not a number"),
            ("no_score", "gave no score"),
        ],
    )
    async def test_answers_are_stored_without_a_score_and_the_error_is_told(self, scorer: str, text: str) -> None:
        run = MeasuredRun(suite("echo", scorers=scored_by(scorer)), samples(3))
        async with evaluation(run) as evaluating:
            result = await activity_environment().run(evaluating.evaluate_shard, shard(3))
        unscored = (await run.by_sample()).values()
        assert {(outcome.status, outcome.passed, *outcome.scores) for outcome in unscored} == {("unscored", False)}
        assert all(outcome.output is not None and text in (outcome.error or "") for outcome in unscored)
        assert result.scoring_error is not None
        assert result.scoring_error.startswith("sample s0: scorer 'python'")
        assert text in result.scoring_error

    async def test_as_many_may_fail_as_the_trial_allows(self) -> None:
        run = MeasuredRun(suite("echo", scorers=scored_by("raising_score")), samples(3))
        async with evaluation(run) as evaluating:
            result = await activity_environment().run(evaluating.evaluate_shard, shard(3, most_failed_scores=3))
        assert (result.evaluated, result.missing, result.scoring_error) == (3, 0, None)

    async def test_no_further_answers_are_paid_for(self) -> None:
        run = MeasuredRun(suite("patient", scorers=scored_by("nan_score")), samples(100, seconds=0.01))
        async with evaluation(run) as evaluating:
            result = await activity_environment().run(evaluating.evaluate_shard, shard(100, concurrent_samples=4))
        assert result.scoring_error is not None
        assert len(evaluation_plugins.calls) <= 8

    async def test_a_metric_that_no_scorer_gives_is_named(self) -> None:
        run = MeasuredRun(suite("echo", scorers=scored_by("detailed"), metric="style"), samples(1))
        async with evaluation(run) as evaluating:
            result = await activity_environment().run(evaluating.evaluate_shard, shard(1))
        assert "metric 'style' is not among the scores given: tone, facts" in (result.scoring_error or "")

    async def test_several_scores_are_kept_with_their_reasons(self) -> None:
        run = MeasuredRun(suite("echo", scorers=scored_by("detailed"), metric="tone"), samples(1))
        async with evaluation(run) as evaluating:
            await activity_environment().run(evaluating.evaluate_shard, shard(1))
        outcome = (await run.by_sample())["s0"]
        assert outcome.scores == {"tone": 0.9, "facts": 0.2}
        assert outcome.per_score["facts"] == {"passed": True, "reason": "two are wrong"}
        assert outcome.feedback == "tone: polite\nfacts: two are wrong"


class TestRescoring:
    async def test_what_is_not_answered_is_missing_and_nobody_is_asked(self) -> None:
        run = MeasuredRun(suite("echo", rescore_of="before"), samples(3))
        async with evaluation(run) as evaluating:
            result = await activity_environment().run(evaluating.evaluate_shard, shard(3))
        assert evaluation_plugins.calls == []
        assert (result.evaluated, result.missing, result.errors) == (0, 3, {"no answer": 3})

    async def test_an_answer_that_had_failed_is_a_failure_for_other_scorers_too(self) -> None:
        run = MeasuredRun(suite("misbehaving", scorers=scored_by("half")), misbehaviours("raise", "a"))
        async with evaluation(run) as evaluating:
            await activity_environment().run(evaluating.evaluate_shard, shard(2))
            before = await run.by_sample()
            async with run.database.connection() as connection:
                await connection.execute("DELETE FROM scores")
            result = await activity_environment().run(evaluating.evaluate_shard, shard(2))
        assert result.evaluated == 2
        assert await run.by_sample() == before
