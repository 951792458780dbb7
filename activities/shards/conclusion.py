"""From stored outcomes to a trial's result: whatever ended the trial, what was answered is aggregated and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugins
from activities.plugins.lost_attempts import attempts_before, refuse_killers
from activities.plugins.probe import LONGEST_IMPORT, import_elsewhere
from activities.plugins.tracebacks import traceback_of
from activities.secret_texts import without_secrets
from activities.shards.evidence import Judging
from ratchet.optimizer import TrialStatus
from store.read.rows.item_rows import ItemRow
from store.write.repositories import Store
from workflows.model.failures import described, shorten, with_remark, with_traceback
from workflows.model.run.amounts import NOTHING, Amount
from workflows.model.run.decisions import Reference
from workflows.model.run.first_look import FirstLook, SeenAnswer
from workflows.model.spec.judgement import Evidence, Noise, Plan
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Conclusion, Planning, Purpose, TrialInput, TrialResult
from workflows.rules.scoring.first_look import MOST_SEEN, first_look
from workflows.rules.scoring.objective_score import (
    ScoringFailed,
    TrialStatistics,
    finite,
    objective_score,
    statistics_for_plugins,
)
from workflows.rules.scoring.tally import Tally, asked_for
from workflows.rules.scoring.trial_ends import (
    measured_too_little,
    mostly_failed,
    race_over,
    scored_too_little,
    stopped_early,
)

LONGEST_OBJECTIVE = 60.0
"""Seconds for a user's own objective, which computes one number from a few others."""


class Concluding:
    """Aggregates and records trials."""

    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        calls: PluginCalls,
        judging: Judging,
        isolation: Isolation | None = None,
    ) -> None:
        self._isolation = isolation or Isolation()
        self._store = store
        self._judging = judging
        self._plugins = plugins
        self._calls = calls

    async def conclude(self, conclusion: Conclusion) -> TrialResult:
        trial = conclusion.trial
        suite = await self._store.suites.load(trial.run_id, trial.split)
        tally = Tally(suite, places=conclusion.places, measures=asked_for(suite.judgement), paid_by=trial.trial_id)
        await self._store.measured_samples.tally(
            tally, trial.candidate.config_hash, trial.candidate.first_replicate, trial.replicates
        )
        facts = tally.statistics(conclusion.samples * trial.replicates, conclusion.errors)
        status, score, error, failure = await self._judged(conclusion, suite, facts, tally.failed_answers)
        kept = NOTHING if facts.coverage >= 1 else await self._store.unscored_answers.paid_for(trial, suite)
        paid = tally.paid + kept
        if error is not None and (unscored := kept.samples + facts.unscored):
            waiting = f"; {unscored} answers wait for their score, which a retry of the run gives them"
            error = with_remark(shorten(error), waiting)
        lost = Amount(samples=conclusion.lost)
        metered = trial.metered or conclusion.metered
        if metered:
            lost += await self._store.budgets.settle_trial(trial)
        evidence = await self._evidence(conclusion, tally) if status == "completed" else []
        noise, plan, look = None, None, None
        if status == "completed" and trial.purpose is Purpose.NOISE and trial.planning is not None:
            noise, plan = await self._planned(trial, suite, trial.planning)
        if score is not None and trial.purpose is Purpose.BASELINE and trial.planning is not None:
            plan, look = await self._looked_at(trial, tally, facts, score, trial.planning)
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
            paid_samples=paid.samples,
            paid_tokens=paid.tokens,
            paid_cost=paid.cost,
            lost_samples=lost.samples,
            lost_tokens=lost.tokens,
            lost_cost=lost.cost,
            reused_samples=tally.reused,
            stopped_early=stopped_early(conclusion, facts),
            evidence=tuple(evidence),
            noise=noise,
            plan=plan,
            first_look=look.warnings if look is not None else (),
            race=race_over(conclusion) if status == "completed" else None,
            exhausted=conclusion.exhausted,
            team_rest=conclusion.team_rest,
            metered=metered,
            duration_ms=_milliseconds_since(conclusion.started_at),
            unserved=(await self._store.served_times.run_clock(trial.run_id)).unserved,
        )
        await self._store.trials.record(
            result, conclusion, tally.means, look, tally.states, cached_tokens=tally.paid_cached_tokens
        )
        return result

    async def lacks_only_scores(self, conclusion: Conclusion) -> bool:
        """Whether every answer of the trial is stored, and some of them are still to be scored."""
        trial = conclusion.trial
        suite = await self._store.suites.load(trial.run_id, trial.split)
        kept = await self._store.unscored_answers.paid_for(trial, suite)
        if not kept.samples:
            return False
        tally = Tally(suite, places=conclusion.places, measures=asked_for(suite.judgement), paid_by=trial.trial_id)
        await self._store.measured_samples.tally(
            tally, trial.candidate.config_hash, trial.candidate.first_replicate, trial.replicates
        )
        wanted = conclusion.samples * trial.replicates
        facts = tally.statistics(wanted, conclusion.errors)
        return facts.outcomes + facts.unscored + kept.samples >= wanted

    async def _tallied(self, conclusion: Conclusion, suite: EvaluationSuite) -> Tally:
        trial, candidate = conclusion.trial, conclusion.trial.candidate
        tally = Tally(suite, places=conclusion.places, measures=asked_for(suite.judgement), paid_by=trial.trial_id)
        measured = self._store.measured_samples
        await measured.tally(tally, candidate.config_hash, candidate.first_replicate, trial.replicates)
        return tally

    async def _evidence(self, conclusion: Conclusion, tally: Tally) -> Sequence[Evidence]:
        trial, candidate = conclusion.trial, conclusion.trial.candidate
        compared = Reference(
            candidate_id=candidate.candidate_id,
            config_hash=candidate.config_hash,
            first_replicate=candidate.first_replicate,
            replicates=trial.replicates,
        )
        samples = conclusion.samples if conclusion.samples < trial.samples else None
        return await self._judging.evidence(tally.suite, compared, tally, trial.references, trial.seed, samples)

    async def _planned(self, trial: TrialInput, suite: EvaluationSuite, planning: Planning) -> tuple[Noise, Plan]:
        """From the single answers of what are few samples."""
        candidate = trial.candidate
        key = (candidate.config_hash, candidate.first_replicate, trial.replicates)
        measured = await self._store.measured_samples.load(suite, *key)
        within = [outcome for outcome in measured if outcome.position < trial.samples]
        return await asyncio.to_thread(_learned_of_noise, within, suite, planning)

    async def _looked_at(
        self, trial: TrialInput, tally: Tally, facts: TrialStatistics, score: float, planning: Planning
    ) -> tuple[Plan | None, FirstLook]:
        """What can be found out, and what is probably wrong, as the baseline's answers tell it."""
        plan, hopeless = await asyncio.to_thread(_learned_of_baseline, tally, score, planning)
        page = await self._store.answers.items(
            trial.run_id, trial.candidate.candidate_id, purpose=trial.purpose.value, limit=MOST_SEEN
        )
        seen = [seen_answer(item) for item in page.items] if page is not None else []
        told = [hopeless] if hopeless is not None else []
        return plan, await asyncio.to_thread(first_look, seen, tally.suite, facts, told)

    async def _judged(
        self, conclusion: Conclusion, suite: EvaluationSuite, facts: TrialStatistics, failed: int
    ) -> tuple[TrialStatus, float | None, str | None, Any]:
        """Status, score, error and kind of failure. Only a trial that was measured in full has a score."""
        match conclusion.ended:
            case "timeout" if facts.coverage >= 1:
                pass  # everything was measured: the time was over before that was told
            case "cancelled" | "timeout" as ended:
                return ended, None, conclusion.error, None
            case "error":
                return "failed", None, _ended_early(conclusion, facts), "execution"
        if facts.unscored or conclusion.scoring_error is not None:
            place = (conclusion.trial.run_id, conclusion.trial.split, conclusion.trial.candidate.config_hash)
            first = conclusion.scoring_error or await self._store.evaluated_samples.first_error(*place, "unscored")
            broken = scored_too_little(conclusion, facts, first) or conclusion.scoring_error
            if broken is not None:
                return "failed", None, broken, "scoring"
        if conclusion.exhausted is not None and facts.coverage < conclusion.trial.min_coverage:
            return "cancelled", None, stopped_early(conclusion, facts), None
        problem = await self._execution_problem(conclusion, facts, failed)
        if problem is not None:
            return "failed", None, problem, "execution"
        try:
            return "completed", await self._score(suite, facts), None, None
        except ScoringFailed as error:
            return "failed", None, str(error), "scoring"

    async def _execution_problem(self, conclusion: Conclusion, facts: TrialStatistics, failed: int) -> str | None:
        trial = conclusion.trial
        if too_little := measured_too_little(conclusion, facts):
            return too_little
        if mostly_failed(conclusion, failed, facts.outcomes):
            found = await self._store.evaluated_samples.first_error(trial.run_id, trial.split, trial.candidate.config_hash)
            first = found or conclusion.error
            return f"{failed} of the baseline's {facts.outcomes} samples failed; first error: {first}"
        return None

    async def _score(self, suite: EvaluationSuite, facts: TrialStatistics) -> float:
        objective = suite.objective
        if objective.ref is None:
            return objective_score(objective, suite.metric, facts)
        if facts.outcomes == 0:
            raise ScoringFailed("no sample has an answer")
        given = statistics_for_plugins(facts)
        if attempts_before().isolates:
            return await self._isolated(objective.ref, given)
        await import_elsewhere(self._plugins, [objective.ref], LONGEST_IMPORT)
        plugin = await self._calls.threads.run(partial(self._plugins.resolve, objective.ref, 1))
        try:
            async with asyncio.timeout(LONGEST_OBJECTIVE) as limit:
                returned = await self._calls.call(plugin, given)
                await self._calls.threads.run(partial(plugin.validate, {"score": returned}, {}))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if limit.expired():
                raise ScoringFailed(f"objective {objective.ref} took longer than {LONGEST_OBJECTIVE:g} s") from None
            told = without_secrets(f"objective {objective.ref} raised {described(error)}")
            raise ScoringFailed(with_traceback(told, traceback_of(error))) from error
        try:
            return finite(returned)
        except ScoringFailed as error:
            raise ScoringFailed(f"objective {objective.ref}: {error}") from None
        except Exception as error:  # what it returned raises when it is read or shown
            raise ScoringFailed(f"objective {objective.ref} returned what cannot be read: {described(error)}") from None

    async def _isolated(self, ref: str, statistics: Mapping[str, object]) -> float:
        """By an objective that may be what killed the workers before."""
        refuse_killers([f"{ref} (objective)"])
        try:
            returned = await self._isolation.call(
                self._plugins, ref, "objective", {"statistics": dict(statistics)}, LONGEST_OBJECTIVE
            )
        except IsolatedFault as fault:
            raise ScoringFailed(with_traceback(f"objective {ref}: {fault}", fault.traceback)) from None
        if "problem" in returned:
            raise ScoringFailed(f"objective {ref}: {returned['problem']}")
        return float(returned["number"])


def _learned_of_noise(measured: Sequence[MeasuredSample], suite: EvaluationSuite, planning: Planning) -> tuple[Noise, Plan]:
    # Statistics take long to import, and few trials need these.
    from workflows.rules.statistics.trial_comparison import learned_of_noise

    return learned_of_noise(measured, suite, planning)


def _learned_of_baseline(tally: Tally, score: float, planning: Planning) -> tuple[Plan | None, str | None]:
    from workflows.rules.statistics.trial_comparison import learned_of_baseline

    return learned_of_baseline(tally, score, planning)


def seen_answer(item: ItemRow) -> SeenAnswer:
    """An answer as a first look sees it."""
    return SeenAnswer(
        sample=item.item_id,
        input=item.input,
        expected=item.expected,
        output=item.output,
        answered=item.status == "answered",
        passed=item.passed,
        error=item.error,
        scores=item.scores,
        details=item.score_details,
        trace=item.trace,
    )


def _ended_early(conclusion: Conclusion, facts: TrialStatistics) -> str:
    trial, error = conclusion.trial, conclusion.error or "the trial failed"
    if not conclusion.errors:
        return error
    answered = f"{facts.outcomes} of {conclusion.samples * trial.replicates} samples have an answer, {facts.coverage:.1%}"
    return with_remark(error, f" ({answered})")


def _milliseconds_since(moment: datetime | None) -> int:
    if moment is None:
        return 0
    return max(0, round((datetime.now(UTC) - moment).total_seconds() * 1000))
