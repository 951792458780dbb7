"""From stored outcomes to a trial's result: whatever ended the trial, what was answered is aggregated and recorded."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from activities.judging import Judging, JudgingStore, Measured
from activities.plugin_calls import PluginCalls
from activities.plugins import Plugins
from ratchet import Record
from ratchet.optimizer import TrialStatus
from workflows.model.amounts import NOTHING, Amount
from workflows.model.decisions import Reference
from workflows.model.failures import described, shorten
from workflows.model.judgement import Evidence, Noise, Plan, RaceDecision
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Conclusion, Planning, Purpose, Split, TrialInput, TrialResult
from workflows.rules.error_counts import told
from workflows.rules.scoring import (
    ScoringFailed,
    TrialStatistics,
    finite,
    objective_score,
    sample_means,
    statistics,
    statistics_for_plugins,
)

LONGEST_OBJECTIVE = 60.0
"""Seconds for a user's own objective, which computes one number from a few others."""

MOSTLY_FAILED = 0.5
"""A baseline of which more than this share of answers failed measures nothing but a mistake in the set-up."""


class ConclusionStore(JudgingStore, Protocol):
    """What concluding needs of the store."""

    async def records(
        self, run_id: str, split: Split, config_hash: str, limit: int, worst_first: bool = True
    ) -> Sequence[Record]: ...
    async def settle_trial(self, trial: TrialInput) -> Amount: ...
    async def record_trial(
        self, result: TrialResult, conclusion: Conclusion, sample_means: Sequence[float | None]
    ) -> object: ...


class Concluding:
    """Aggregates and records trials."""

    def __init__(self, store: ConclusionStore, plugins: Plugins, calls: PluginCalls, judging: Judging) -> None:
        self._store = store
        self._judging = judging
        self._plugins = plugins
        self._calls = calls

    async def conclude(self, conclusion: Conclusion) -> TrialResult:
        trial = conclusion.trial
        suite = await self._store.suite(trial.run_id, trial.split)
        measured = await self._store.measured(
            trial.run_id,
            trial.split,
            trial.candidate.config_hash,
            suite.evaluator,
            trial.candidate.first_replicate,
            trial.replicates,
        )
        measured = [outcome for outcome in measured if outcome.position < conclusion.samples]
        facts = statistics(measured, suite, conclusion.samples * trial.replicates, conclusion.errors)
        status, score, error, failure = await self._judged(conclusion, suite, facts, measured)
        paid = [outcome for outcome in measured if outcome.paid and outcome.trial_id in (None, trial.trial_id)]
        lost = await self._store.settle_trial(trial) if trial.metered else NOTHING
        evidence = await self._evidence(conclusion, suite, measured) if status == "completed" else []
        noise, plan = None, None
        if status == "completed" and trial.planning is not None:
            noise, plan = await asyncio.to_thread(_planned, measured, suite, trial.planning)
        result = TrialResult(
            optimization_id=trial.run_id,
            candidate_id=trial.candidate.candidate_id,
            mask_id=trial.candidate.config_hash,
            experiment_id=conclusion.experiment_id or trial.trial_id,
            status=status,
            objective_score=score,
            summary=facts.summary,
            coverage=min(1.0, facts.coverage),
            error=None if error is None else shorten(error),
            failure=failure,
            paid_samples=len(paid),
            paid_tokens=sum(outcome.tokens for outcome in paid),
            paid_cost=math.fsum(outcome.cost for outcome in paid),
            lost_samples=lost.samples,
            lost_tokens=lost.tokens,
            lost_cost=lost.cost,
            reused_samples=sum(1 for outcome in measured if not outcome.paid),
            stopped_early=_stopped_early(conclusion, facts),
            evidence=tuple(evidence),
            noise=noise,
            plan=plan,
            race=_race_over(conclusion) if status == "completed" else None,
            exhausted=conclusion.exhausted,
            duration_ms=_milliseconds_since(conclusion.started_at),
        )
        await self._store.record_trial(result, conclusion, sample_means(measured, suite))
        return result

    async def _evidence(
        self, conclusion: Conclusion, suite: EvaluationSuite, measured: Sequence[MeasuredSample]
    ) -> Sequence[Evidence]:
        trial, candidate = conclusion.trial, conclusion.trial.candidate
        compared = Reference(
            candidate_id=candidate.candidate_id,
            config_hash=candidate.config_hash,
            first_replicate=candidate.first_replicate,
            replicates=trial.replicates,
        )
        samples = conclusion.samples if conclusion.samples < trial.samples else None
        return await self._judging.evidence(suite, Measured(compared, measured), trial.references, trial.seed, samples)

    async def _judged(
        self, conclusion: Conclusion, suite: EvaluationSuite, facts: TrialStatistics, measured: Sequence[MeasuredSample]
    ) -> tuple[TrialStatus, float | None, str | None, Any]:
        """Status, score, error and kind of failure. Only a trial that was measured in full has a score."""
        match conclusion.ended:
            case "cancelled" | "timeout" as ended:
                return ended, None, conclusion.error, None
            case "error":
                return "failed", None, _ended_early(conclusion, facts), "execution"
        if conclusion.scoring_error is not None:
            return "failed", None, conclusion.scoring_error, "scoring"
        if conclusion.exhausted is not None and facts.coverage < conclusion.trial.min_coverage:
            return "cancelled", None, _stopped_early(conclusion, facts), None
        problem = await self._execution_problem(conclusion, facts, measured)
        if problem is not None:
            return "failed", None, problem, "execution"
        try:
            return "completed", await self._score(suite, facts), None, None
        except ScoringFailed as error:
            return "failed", None, str(error), "scoring"

    async def _execution_problem(
        self, conclusion: Conclusion, facts: TrialStatistics, measured: Sequence[MeasuredSample]
    ) -> str | None:
        trial = conclusion.trial
        if facts.coverage < trial.min_coverage:
            wanted = conclusion.samples * trial.replicates
            why = f"; errors: {told(facts.summary.errors)}" if facts.summary.errors else ""
            why += f"; first error: {conclusion.error}" if conclusion.error else ""
            return (
                f"only {facts.outcomes} of {wanted} samples have an answer ({facts.coverage:.1%}), "
                f"at least {trial.min_coverage:.1%} are needed{why}"
            )
        failed = sum(1 for outcome in measured if outcome.status == "failed")
        if trial.purpose in (Purpose.BASELINE, Purpose.NOISE) and failed > MOSTLY_FAILED * len(measured):
            records = await self._store.records(trial.run_id, trial.split, trial.candidate.config_hash, 1)
            first = records[0].feedback if records else conclusion.error
            return f"{failed} of the baseline's {len(measured)} samples failed; first error: {first}"
        return None

    async def _score(self, suite: EvaluationSuite, facts: TrialStatistics) -> float:
        objective = suite.objective
        if objective.ref is None:
            return objective_score(objective, suite.metric, facts)
        if facts.outcomes == 0:
            raise ScoringFailed("no sample has an answer")
        plugin = self._plugins.resolve(objective.ref, 1)
        given = statistics_for_plugins(facts)
        try:
            async with asyncio.timeout(LONGEST_OBJECTIVE) as limit:
                returned = await self._calls.call(plugin, given)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if limit.expired():
                raise ScoringFailed(f"objective {objective.ref} took longer than {LONGEST_OBJECTIVE:g} s") from None
            raise ScoringFailed(f"objective {objective.ref} raised {described(error)}") from error
        try:
            return finite(returned)
        except ScoringFailed as error:
            raise ScoringFailed(f"objective {objective.ref}: {error}") from None
        except Exception as error:  # what it returned raises when it is read or shown
            raise ScoringFailed(f"objective {objective.ref} returned what cannot be read: {described(error)}") from None


def _planned(measured: Sequence[MeasuredSample], suite: EvaluationSuite, planning: Planning) -> tuple[Noise, Plan]:
    # Statistics take long to import, and few trials need these.
    from workflows.rules.judgement import estimate_noise
    from workflows.rules.planning import measured_plan

    answered = sorted({outcome.replicate for outcome in measured})
    by_replicate = [
        sample_means([outcome for outcome in measured if outcome.replicate == replicate], suite) for replicate in answered
    ]
    scores = [[score for score in of_sample if score is not None] for of_sample in zip(*by_replicate, strict=True)]
    noise = estimate_noise(scores)
    return noise, measured_plan(noise, planning, suite.judgement)


def _stopped_early(conclusion: Conclusion, facts: TrialStatistics) -> str | None:
    """A trial that the budget did not cover says so; one that is measured too little for that is not compared."""
    over = _race_over(conclusion)
    if over is not None:
        return over.words
    if conclusion.exhausted is None:
        return None
    wanted = conclusion.samples * conclusion.trial.replicates
    return f"the {conclusion.exhausted} budget is exhausted: {facts.outcomes} of {wanted} samples have an answer"


def _race_over(conclusion: Conclusion) -> RaceDecision | None:
    """The look that ended the trial's race."""
    return conclusion.looks[-1] if conclusion.looks and not conclusion.looks[-1].go_on else None


def _ended_early(conclusion: Conclusion, facts: TrialStatistics) -> str:
    trial, error = conclusion.trial, conclusion.error or "the trial failed"
    if not conclusion.errors:
        return error
    return f"{error} ({facts.outcomes} of {conclusion.samples * trial.replicates} samples have an answer, {facts.coverage:.1%})"


def _milliseconds_since(moment: datetime | None) -> int:
    if moment is None:
        return 0
    return max(0, round((datetime.now(UTC) - moment).total_seconds() * 1000))
