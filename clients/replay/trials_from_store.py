"""Trials worked out again from every stored outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from functools import partial

from clients.replay.trial_source import Asked, Gone, Recomputed, candidate_of, conclusion_of, measured_again
from clients.reports.facts import Iteration
from ratchet.optimizer import TrialStatus
from store.read.replay_records import RecordedOutcomes
from workflows.model.activities.judge import Measured, RaceLookInput
from workflows.model.run.decisions import Reference
from workflows.model.run.rounds import Spend
from workflows.model.spec.judgement import Evidence, Judged, Noise, Plan, RaceDecision
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import Conclusion, Planning, Purpose, Split, TrialResult
from workflows.rules.decisions.verdicts import judge
from workflows.rules.scoring.objective_score import ScoringFailed, TrialStatistics, objective_score
from workflows.rules.scoring.tally import Tally, asked_for
from workflows.rules.scoring.trial_ends import measured_too_little, mostly_failed, race_over, stopped_early
from workflows.rules.statistics.detectable_effect import plan_at_baseline
from workflows.rules.statistics.sameness import answered_alike
from workflows.rules.statistics.trial_answers import answers_in
from workflows.rules.statistics.trial_comparison import learned_of_noise, looked_at, tallies_compared

PLUGIN_SCORES = "the scores of trials: the objective is a plug-in ({ref}), which only workers run"


class FromOutcomes:
    """What the store's outcomes say of a run's trials."""

    def __init__(self, outcomes: RecordedOutcomes, run_id: str, request: OptimizationRequest) -> None:
        self._outcomes = outcomes
        self._run_id = run_id
        self._request = request
        self._suites: dict[Split, EvaluationSuite] = {}
        self._must_pass: dict[Split, dict[int, str]] = {}
        self.tally = Gone()

    async def trial(self, past: Iteration, asked: Asked) -> Recomputed:
        suite = await self._suite(Split(past.split or Split.ALL))
        looks = await self._looks(suite, past, asked)
        conclusion = conclusion_of(self._run_id, past, asked, self._request.execution.min_coverage)
        if not asked.in_full:
            conclusion = conclusion.model_copy(update={"looks": looks})
        places = range(past.first, past.first + conclusion.samples)
        tally = Tally(suite, places=places, measures=asked_for(suite.judgement), paid_by=past.trial_id)
        await self._outcomes.tally(tally, _reference(past), past.ended_at)
        means = tuple(tally.means)
        self.tally.trials += 1
        self.tally.answers += tally.answers
        if past.trial_status in ("cancelled", "timeout") and past.sample_means is None:
            return measured_again(past, _as_recorded(self._run_id, past))  # cut off: nothing was recorded
        result = await self._result(past, asked, conclusion, tally)
        return measured_again(past, result, sample_means=means, looks=looks)

    async def judged(self, reference: Iteration, candidate: Iteration, asked: Asked) -> Judged:
        """On all samples of the split: what the `judge` activity answers."""
        suite = await self._suite(Split(candidate.split or Split.ALL))
        until = max((one.ended_at for one in (reference, candidate) if one.ended_at is not None), default=None)
        answers = await self._tallied(suite, _reference(candidate), until)
        [evidence] = await self._evidence(_reference(candidate), answers, asked, until, None)
        [judged] = judge([evidence], suite.judgement)
        return judged

    async def alike(self, before: Iteration, afresh: Iteration) -> bool:
        suite = await self._suite(Split(afresh.split or Split.ALL))
        one, other = [await self._tallied(suite, _reference(trial), afresh.ended_at) for trial in (before, afresh)]
        return answered_alike(answers_in(one), answers_in(other))

    async def _result(self, past: Iteration, asked: Asked, conclusion: Conclusion, tally: Tally) -> TrialResult:
        wanted = conclusion.samples * past.replicates
        facts = tally.statistics(wanted, _missing(past, tally.statistics(wanted).errors))
        status, score, error, failure = self._ended(past, conclusion, tally, facts)
        completed = status == "completed"
        samples = conclusion.samples if conclusion.samples < past.samples else None
        evidence = await self._evidence(_reference(past), tally, asked, past.ended_at, samples) if completed else []
        paid = Spend(samples=tally.paid.samples, tokens=tally.paid.tokens, cost=tally.paid.cost)
        if facts.coverage < 1 and past.paid.samples > paid.samples:
            paid = past.paid  # answers that wait for their score were paid for, too
        noise, plan = await self._learned(tally, past, asked.planning) if asked.planning and completed else (None, None)
        return _as_recorded(self._run_id, past).model_copy(
            update={
                "status": status,
                "objective_score": score,
                "summary": facts.summary,
                "coverage": min(1.0, facts.coverage),
                "error": error,
                "failure": failure,
                "stopped_early": stopped_early(conclusion, facts),
                "evidence": tuple(evidence),
                "race": race_over(conclusion) if completed else None,
                "noise": noise,
                "plan": plan,
                "paid_samples": paid.samples,
                "paid_tokens": paid.tokens,
                "paid_cost": paid.cost,
                "reused_samples": tally.reused,
            }
        )

    async def _learned(self, tally: Tally, past: Iteration, planning: Planning) -> tuple[Noise | None, Plan | None]:
        if past.purpose is Purpose.BASELINE:
            return None, plan_at_baseline(tally.means, tally.singles, planning, tally.suite.judgement)[0]
        measured = await self._outcomes.measured(tally.suite, _reference(past), past.ended_at)
        return learned_of_noise([one for one in measured if one.position < past.samples], tally.suite, planning)

    def _ended(
        self, past: Iteration, conclusion: Conclusion, tally: Tally, facts: TrialStatistics
    ) -> tuple[TrialStatus, float | None, str | None, str | None]:
        """What the answers say; that a trial was cancelled, or its scorer broke, only the record knows."""
        if past.trial_status in ("cancelled", "timeout") and past.exhausted is None:
            return past.trial_status, None, past.error, None
        if past.trial_status == "failed" and past.failure == "scoring":
            return "failed", None, past.error, "scoring"
        told = past.error or ""
        if too_little := measured_too_little(conclusion, facts):
            if past.exhausted is not None:
                short = stopped_early(conclusion, facts) or ""  # with how many answers wait for their score
                return "cancelled", None, told if told.startswith(short) else short, None
            return "failed", None, told if told.startswith(too_little) or _by_itself(told) else too_little, "execution"
        if mostly_failed(conclusion, tally.failed_answers, facts.outcomes):
            failed = f"{tally.failed_answers} of the baseline's {facts.outcomes} samples failed"
            return "failed", None, told if told.startswith(failed) else failed, "execution"
        if past.trial_status == "failed" and _by_itself(told):
            return "failed", None, past.error, "execution"
        suite = tally.suite
        if suite.objective.ref is not None:
            self.tally.cannot(PLUGIN_SCORES.format(ref=suite.objective.ref))
            return "completed", past.score, None, None
        try:
            return "completed", objective_score(suite.objective, suite.metric, facts), None, None
        except ScoringFailed as error:
            return "failed", None, str(error), "scoring"

    async def _looks(self, suite: EvaluationSuite, past: Iteration, asked: Asked) -> tuple[RaceDecision, ...]:
        """Every look at a trial that raced, up to the one that ended it; one that was cut off had no more than it had."""
        race = asked.race
        if race is None:
            return ()
        most = len(past.looks) if past.trial_status != "completed" or past.exhausted is not None else past.samples
        trials = (race.reference, _reference(past))
        reference, measured = [Measured(one, await self._outcomes.measured(suite, one, past.ended_at)) for one in trials]
        looks: list[RaceDecision] = []
        for until in range(race.block, past.samples, race.block):
            if len(looks) >= most:
                break
            look = RaceLookInput(
                run_id=self._run_id, split=suite.split, candidate=measured.trial, race=race, until=until, of=past.samples
            )
            looks.append(await asyncio.to_thread(looked_at, suite, look, reference, measured))
            self.tally.looks += 1
            if not looks[-1].go_on:
                break
        return tuple(looks)

    async def _evidence(
        self, candidate: Reference, answers: Tally, asked: Asked, until: datetime | None, samples: int | None
    ) -> list[Evidence]:
        suite = answers.suite
        within = suite if samples is None else suite.of_the_first(samples)
        compare = partial(
            tallies_compared,
            candidate=candidate,
            answers=answers,
            must_pass=await self._must_pass_of(suite),
            seed=self._request.seed,
        )
        found = []
        for reference in asked.references:
            found.append(await asyncio.to_thread(compare, reference, await self._tallied(within, reference, until)))
            self.tally.comparisons += 1
        return found

    async def _suite(self, split: Split) -> EvaluationSuite:
        if split not in self._suites:
            self._suites[split] = await self._outcomes.suites.load(self._run_id, split)
        return self._suites[split]

    async def _must_pass_of(self, suite: EvaluationSuite) -> dict[int, str]:
        named = suite.judgement.must_pass
        if named is None:
            return {}
        if suite.split not in self._must_pass:
            self._must_pass[suite.split] = await self._outcomes.suites.must_pass(self._run_id, suite.split, named)
        return self._must_pass[suite.split]

    async def _tallied(self, suite: EvaluationSuite, trial: Reference, until: datetime | None) -> Tally:
        tally = Tally(suite, measures=asked_for(suite.judgement))
        await self._outcomes.tally(tally, trial, until)
        return tally


def _reference(past: Iteration) -> Reference:
    return Reference(
        candidate_id=past.candidate_id,
        config_hash=past.config_hash,
        first_replicate=past.first_replicate,
        replicates=past.replicates,
    )


def _missing(past: Iteration, failed: Mapping[str, int]) -> dict[str, int]:
    """Of the errors that are recorded, those of pairs without an answer, which no outcome tells of."""
    left = {name: count - failed.get(name, 0) for name, count in past.statistics.errors.items()}
    return {name: count for name, count in left.items() if count > 0}


def _by_itself(error: str) -> bool:
    """Whether the trial's own workflow failed: then its error is not about how much was answered."""
    return not error.startswith("only ") and " of the baseline's " not in error


def _as_recorded(run_id: str, past: Iteration) -> TrialResult:
    candidate = candidate_of(past)
    return TrialResult(
        optimization_id=run_id,
        candidate_id=candidate.candidate_id,
        mask_id=candidate.config_hash,
        experiment_id=past.trial_id,
        status=past.trial_status,
        error=past.error,
        stopped_early=past.stopped_early,
        exhausted=past.exhausted,
        team_rest=past.team_rest,
        paid_samples=past.paid.samples,
        paid_tokens=past.paid.tokens,
        paid_cost=past.paid.cost,
        lost_samples=past.lost.samples,
        lost_tokens=past.lost.tokens,
        lost_cost=past.lost.cost,
        reused_samples=past.reused,
    )
