"""Two trials of a run side by side, from their outcomes: what their comparison finds, and whether one that races goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ratchet._formats.canonical import derive_seed
from workflows.model.activities.judge import Measured, RaceLookInput
from workflows.model.run.decisions import Reference
from workflows.model.spec.judgement import Evidence, Noise, Plan, RaceDecision, Racing
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Planning
from workflows.rules.decisions.verdicts import Family
from workflows.rules.scoring.first_look import out_of_reach
from workflows.rules.scoring.tally import Tally, asked_for, sample_means
from workflows.rules.statistics.comparison import evidence_of
from workflows.rules.statistics.detectable_effect import measured_plan, plan_at_baseline
from workflows.rules.statistics.noise import estimate_noise
from workflows.rules.statistics.races import race
from workflows.rules.statistics.strict import strict_counts
from workflows.rules.statistics.trial_answers import answers_in


def compared(
    suite: EvaluationSuite,
    reference: Measured,
    candidate: Measured,
    *,
    must_pass: Mapping[int, str],
    seed: int,
    samples: int | None = None,
) -> Evidence:
    """What comparing a candidate with a reference finds; with `samples`, on the first of them only."""
    one, other = [
        _tallied(suite if samples is None else suite.of_the_first(samples), trial) for trial in (reference, candidate)
    ]
    return tallies_compared(reference.trial, one, candidate=candidate.trial, answers=other, must_pass=must_pass, seed=seed)


def tallies_compared(
    reference: Reference,
    reference_answers: Tally,
    *,
    candidate: Reference,
    answers: Tally,
    must_pass: Mapping[int, str],
    seed: int,
) -> Evidence:
    """The same of answers that were added up already; those of the reference say over how many samples."""
    suite = reference_answers.suite
    return evidence_of(
        answers_in(reference_answers),
        answers_in(answers, suite.samples),
        spec=suite.judgement,
        direction=suite.objective.direction,
        reference_id=reference.candidate_id,
        must_pass={place: name for place, name in must_pass.items() if place < suite.samples},
        seed=evidence_seed(seed, suite.split, reference.candidate_id, candidate.candidate_id),
    )


def _tallied(suite: EvaluationSuite, trial: Measured) -> Tally:
    return Tally.of(trial.answers, suite, measures=asked_for(suite.judgement))


def evidence_seed(seed: int, split: str, reference_id: str, candidate_id: str) -> int:
    """Of the flips that a test draws where there are too many to enumerate."""
    return derive_seed(seed, "evidence", str(split), reference_id, candidate_id)


def looked_at(suite: EvaluationSuite, asked: RaceLookInput, reference: Measured, candidate: Measured) -> RaceDecision:
    """Whether a trial goes on after its first samples."""
    one, other = [_tallied(suite.of_the_first(asked.until), trial) for trial in (reference, candidate)]
    return tallies_looked_at(asked, one, other)


def tallies_looked_at(asked: RaceLookInput, reference: Tally, candidate: Tally) -> RaceDecision:
    """The same of answers that were added up already."""
    suite, one, other = candidate.suite, answers_in(reference), answers_in(candidate)
    racing = (suite.judgement.racing or Racing()).model_copy(update={"block": asked.race.block})
    broken = strict_counts(one.passes, other.passes, other.clusters).broken if one.passes and other.passes else 0
    return race(
        one.means,
        other.means,
        planned=asked.of,
        spec=suite.judgement.model_copy(update={"racing": racing}),
        weights=one.weights,
        direction=suite.objective.direction,
        reference_id=asked.race.reference.candidate_id,
        candidates=asked.race.candidates,
        family=Family(asked.race.share, asked.race.chosen_from),
        strict_broken=broken,
        singles=None if one.singles is None or other.singles is None else (one.singles, other.singles),
        clusters=suite.of_the_first(asked.of).clusters,
    )


def learned_of_noise(measured: Sequence[MeasuredSample], suite: EvaluationSuite, planning: Planning) -> tuple[Noise, Plan]:
    """How much scores vary between replicates of one configuration, and what the run can find out given that."""
    answered = sorted({outcome.replicate for outcome in measured})
    by_replicate = [
        sample_means([outcome for outcome in measured if outcome.replicate == replicate], suite) for replicate in answered
    ]
    scores = [[score for score in of_sample if score is not None] for of_sample in zip(*by_replicate, strict=True)]
    noise = estimate_noise(scores)
    return noise, measured_plan(noise, planning, suite.judgement)


def learned_of_baseline(tally: Tally, score: float, planning: Planning) -> tuple[Plan | None, str | None]:
    """What the run can find out, where the baseline says more of it than was known; and why it can find nothing, if so."""
    told, at_best = plan_at_baseline(tally.means, tally.singles, planning, tally.suite.judgement)
    scores = [mean for mean in tally.means if mean is not None]
    return told, None if at_best is None else out_of_reach(at_best, score, scores, tally.suite)
