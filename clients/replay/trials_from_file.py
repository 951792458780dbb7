"""Trials worked out again from what an exported file holds of them: the score of every sample, and where verdicts depend on
more than scores, as much of single answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clients.replay.recorded_answers import (
    NO_MEANS,
    clusters_of,
    figures_of,
    lacks_single_scores,
    read_for_judgement,
    singles_of,
)
from clients.replay.trial_source import Asked, Gone, Recomputed, conclusion_of, measured_again
from clients.reports.facts import Iteration, RunFacts, SplitSamples, Statistics
from ratchet.optimizer import TrialStatus
from workflows.model.run.decisions import Reference
from workflows.model.spec.judgement import Constraint, ConstraintCheck, Evidence, Judged, Plan, RaceDecision, Racing
from workflows.model.trial import Conclusion, Planning, Purpose, Split, TrialResult, TrialSummary
from workflows.rules.decisions.verdicts import Family, judge
from workflows.rules.scoring.objective_score import is_mean_over_samples, weighted_mean
from workflows.rules.scoring.trial_ends import race_over
from workflows.rules.statistics import TrialAnswers, compare, evidence_of, race, strict_counts
from workflows.rules.statistics.detectable_effect import plan_at_baseline
from workflows.rules.statistics.sameness import answered_alike
from workflows.rules.statistics.trial_comparison import evidence_seed

Means = Sequence[float | None]

NO_MEAN = "the scores of trials: an objective of kind {kind} is no mean over samples"
SINGLE_ANSWERS = "{what}: they depend on single answers, which this file does not have"

UNEQUALLY = "comparisons of trials that answered unequally often"

OF_PASSES = ("strict_broken", "strict_baseline", "strict_false_rejections", "must_pass_broken")
"""What evidence says of how often samples passed."""


class FromMeans:
    """What a file says of a run's trials."""

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts
        self._spec = facts.request.judgement
        self._drawn = {drawn.split: drawn for drawn in facts.splits}
        self.tally = Gone()
        answered = [one for one in (*facts.iterations, *facts.further) if one.sample_means is not None]
        has_answers = bool(answered) and all(one.answers is not None for one in answered)
        for named, what in (
            (self._spec.constraints, "constraints"),
            (self._spec.must_pass, "must-pass samples"),
            (self._spec.objectives, "further objectives"),
            (self._spec.rule == "strict", "what the strict rule counts"),
        ):
            if named and not has_answers:
                self.tally.cannot(SINGLE_ANSWERS.format(what=what))
        self.tally.cannot(SINGLE_ANSWERS.format(what="passes, tokens, cost and latency of trials"))

    async def trial(self, past: Iteration, asked: Asked) -> Recomputed:
        drawn = self._drawn_of(past)
        looks = self._looks(past, asked, drawn)
        conclusion = conclusion_of(self._facts.run_id, past, asked, self._facts.request.execution.min_coverage)
        if not asked.in_full:
            conclusion = conclusion.model_copy(update={"looks": looks})
        self.tally.trials += 1
        over = race_over(conclusion)
        status, score = self._ended(past, conclusion, drawn)
        samples = conclusion.samples if conclusion.samples < past.samples else None
        evidence = self._evidence(past, asked, drawn, samples) if status == "completed" else []
        statistics = _consistent(figures_of(past.statistics, past.answers, past.first + conclusion.samples), conclusion)
        result = TrialResult(
            optimization_id=self._facts.run_id,
            candidate_id=past.candidate_id,
            mask_id=past.config_hash,
            experiment_id=past.trial_id,
            status=status,
            objective_score=score,
            summary=_summary(statistics),
            coverage=statistics.coverage,
            stopped_early=over.words if over is not None else past.stopped_early,
            evidence=tuple(evidence),
            race=over if status == "completed" else None,
            noise=self._facts.noise if asked.planning else None,
            plan=self._plan(past, asked.planning),
            error=past.error,
            failure=past.failure,
            paid_samples=past.paid.samples,
            paid_tokens=past.paid.tokens,
            paid_cost=past.paid.cost,
            lost_samples=past.lost.samples,
            lost_tokens=past.lost.tokens,
            lost_cost=past.lost.cost,
            reused_samples=past.reused,
            exhausted=past.exhausted,
            team_rest=past.team_rest,
        )
        if asked.planning is not None and past.purpose is Purpose.NOISE:
            self.tally.cannot(SINGLE_ANSWERS.format(what="noise and plan"))
        return measured_again(past, result, looks=looks)

    def _plan(self, past: Iteration, planning: Planning | None) -> Plan | None:
        """What was found out of what the run can find; of answers that are not in the file it stays as it is recorded."""
        means = past.sample_means
        unknown = past.replicates > 1 and (past.answers is None or past.answers.scores is None)
        if planning is None or means is None or unknown or past.purpose is Purpose.NOISE:
            return None if planning is None else self._facts.plan
        return plan_at_baseline(means, singles_of(past, len(means)), planning, self._spec)[0]

    async def judged(self, reference: Iteration, candidate: Iteration, asked: Asked) -> Judged:
        stored = self._facts.result.confirmation if self._facts.result is not None else None
        recorded = [stored.judged.evidence] if stored is not None and stored.judged is not None else []
        known: dict[str, Iteration | None] = {reference.candidate_id: reference}
        [evidence] = self._compared(candidate, asked, self._drawn_of(candidate), None, recorded, known)
        [judged] = judge([evidence], self._spec)
        return judged

    async def alike(self, before: Iteration, afresh: Iteration) -> bool:
        if before.sample_means is None or afresh.sample_means is None:
            self.tally.cannot(NO_MEANS)
            return self._told_alike
        if any(one.replicates > 1 and (one.answers is None or one.answers.scores is None) for one in (before, afresh)):
            self.tally.cannot(SINGLE_ANSWERS.format(what="whether fresh answers were alike"))
            return self._told_alike
        one, other = [
            TrialAnswers(list(trial.sample_means or ()), singles=singles_of(trial, len(trial.sample_means or ())))
            for trial in (before, afresh)
        ]
        return answered_alike(one, other)

    @property
    def _told_alike(self) -> bool:
        """Whether the record says so: then the confirmation is by cross-fitting."""
        stored = self._facts.result.confirmation if self._facts.result is not None else None
        return stored is not None and stored.how == "cross_fitting"

    def _ended(self, past: Iteration, conclusion: Conclusion, drawn: SplitSamples) -> tuple[TrialStatus, float | None]:
        if past.trial_status != "completed":
            return past.trial_status, None
        objective = self._facts.request.objective
        if past.sample_means is None:
            self.tally.cannot(NO_MEANS)
            return "completed", past.score
        if not is_mean_over_samples(objective):
            self.tally.cannot(NO_MEAN.format(kind=objective.kind))
            return "completed", past.score
        means = past.sample_means[: past.first + conclusion.samples]
        weights = drawn.weights or [1.0] * len(means)
        measured = [(weight, mean) for weight, mean in zip(weights, means, strict=False) if mean is not None]
        return "completed", weighted_mean(measured) if measured else None

    def _looks(self, past: Iteration, asked: Asked, drawn: SplitSamples) -> tuple[RaceDecision, ...]:
        if asked.race is None:
            return ()
        raced = self._trial_of(asked.race.reference)
        reference, means = raced.sample_means if raced is not None else None, past.sample_means
        if raced is None or reference is None or means is None:
            self.tally.cannot(NO_MEANS)
            return past.looks
        passes = [one.answers.passes if one.answers is not None else None for one in (raced, past)]
        if self._spec.rule == "strict" and None in passes:
            return past.looks  # noted at the beginning
        before, after = [given or () for given in passes]
        if lacks_single_scores(raced, past):
            self.tally.cannot(SINGLE_ANSWERS.format(what=UNEQUALLY))
            return past.looks
        singles = singles_of(raced, len(reference)), singles_of(past, len(means))
        clusters = clusters_of(drawn, past.samples)
        cut_off = past.trial_status != "completed" or past.exhausted is not None
        most = len(past.looks) if cut_off else past.samples
        racing = (self._spec.racing or Racing()).model_copy(update={"block": asked.race.block})
        looks: list[RaceDecision] = []
        for until in range(asked.race.block, past.samples, asked.race.block):
            if len(looks) >= most:
                break
            looks.append(
                race(
                    reference[:until],
                    means[:until],
                    planned=past.samples,
                    spec=self._spec.model_copy(update={"racing": racing}),
                    weights=drawn.weights[:until] if drawn.weights else None,
                    direction=self._facts.direction,
                    reference_id=asked.race.reference.candidate_id,
                    candidates=asked.race.candidates,
                    family=Family(asked.race.share, asked.race.chosen_from),
                    singles=(singles[0][:until], singles[1][:until]),
                    clusters=clusters,
                    strict_broken=strict_counts(before[:until], after[:until], clusters).broken if before and after else 0,
                )
            )
            self.tally.looks += 1
            if not looks[-1].go_on:
                break
        return tuple(looks)

    def _evidence(self, past: Iteration, asked: Asked, drawn: SplitSamples, samples: int | None) -> list[Evidence]:
        known = {reference.candidate_id: self._trial_of(reference) for reference in asked.references}
        return self._compared(past, asked, drawn, samples, past.evidence, known)

    def _compared(
        self,
        past: Iteration,
        asked: Asked,
        drawn: SplitSamples,
        samples: int | None,
        recorded: Sequence[Evidence],
        known: Mapping[str, Iteration | None],
    ) -> list[Evidence]:
        """The comparisons that the run made; where the file has no single answers, with what those added as it is recorded."""
        found: list[Evidence] = []
        for reference in asked.references:
            told = next((one for one in recorded if one.reference == reference.candidate_id), None)
            before = known[reference.candidate_id]
            if before is None or before.sample_means is None or past.sample_means is None:
                self.tally.cannot(NO_MEANS)
                found += [told] if told is not None else []
                continue
            self.tally.comparisons += 1
            found.append(self._compare(before, past, drawn, samples, told))
        return found

    def _compare(
        self, before: Iteration, past: Iteration, drawn: SplitSamples, samples: int | None, told: Evidence | None
    ) -> Evidence:
        seed = evidence_seed(self._facts.request.seed, drawn.split, before.candidate_id, past.candidate_id)
        one, other = [read_for_judgement(trial, drawn, samples) for trial in (before, past)]
        if one is not None and other is not None and not lacks_single_scores(before, past):
            evidence = evidence_of(
                one,
                other,
                spec=self._spec,
                direction=self._facts.direction,
                reference_id=before.candidate_id,
                must_pass={place: name for place, name in drawn.must_pass.items() if place < len(one.means)},
                seed=seed,
            )
            counted = one.passes is not None and other.passes is not None
            return evidence if told is None or counted else evidence.model_copy(update=_as_told(told, OF_PASSES))
        if lacks_single_scores(before, past):
            self.tally.cannot(SINGLE_ANSWERS.format(what=UNEQUALLY))
            if told is not None:
                return told
        before_means, means = (before.sample_means or ())[:samples], (past.sample_means or ())[:samples]
        evidence = compare(
            before_means,
            means,
            drawn.weights[:samples] if drawn.weights else None,
            spec=self._spec,
            direction=self._facts.direction,
            reference_id=before.candidate_id,
            seed=seed,
            clusters=clusters_of(drawn, len(means)),
        )
        return evidence if told is None else self._with_what_answers_added(evidence, told)

    def _with_what_answers_added(self, evidence: Evidence, told: Evidence) -> Evidence:
        wanted = {constraint.words: constraint for constraint in self._spec.constraints}
        checks = tuple(_checked(check, wanted.get(check.constraint)) for check in told.constraints)
        return evidence.model_copy(update=_as_told(told, (*OF_PASSES, "objectives")) | {"constraints": checks})

    def _trial_of(self, reference: Reference) -> Iteration | None:
        return next((one for one in self._facts.iterations if one.candidate_id == reference.candidate_id), None)

    def _drawn_of(self, past: Iteration) -> SplitSamples:
        return self._drawn[Split(past.split or Split.ALL)]


def _as_told(told: Evidence, names: Sequence[str]) -> dict[str, object]:
    return {name: getattr(told, name) for name in names}


def _checked(check: ConstraintCheck, constraint: Constraint | None) -> ConstraintCheck:
    """Whether a limit is kept follows from the value."""
    if constraint is None or check.value is None:
        return check.model_copy(update={"holds": False})
    limit = constraint.at_most if constraint.at_most is not None else constraint.at_least
    limit = check.limit if constraint.of_baseline or limit is None else limit
    holds = check.value <= limit if constraint.at_most is not None else check.value >= limit
    return check.model_copy(update={"holds": holds, "limit": limit})


def _consistent(told: Statistics, conclusion: Conclusion) -> Statistics:
    """Figures that follow from each other."""
    answered = told.success_count + told.failure_count
    wanted = conclusion.samples * conclusion.trial.replicates
    return told.model_copy(
        update={
            "sample_count": answered,
            "success_rate": told.success_count / answered if answered else 0.0,
            "coverage": min(1.0, answered / wanted) if wanted else 0.0,
        }
    )


def _summary(statistics: Statistics) -> TrialSummary:
    return TrialSummary(
        total=statistics.sample_count,
        passed=statistics.success_count,
        failed=statistics.failure_count,
        pass_rate=statistics.success_rate,
        total_cost=statistics.total_cost,
        total_tokens=statistics.total_tokens,
        avg_latency_ms=statistics.mean_latency_ms,
        errors=statistics.errors,
    )
