"""What every report is made from: a run, its iterations, rounds and rejections, whatever store they came from.

An iteration is a trial of the search, the baseline included, numbered in the order of the proposals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, JsonValue
from pydantic.alias_generators import to_camel

from clients.reports.comparisons.score_differences import ScoreDifference, difference_of
from ratchet._formats.canonical import canonical_json
from ratchet._frozen import Payload
from ratchet.optimizer import Direction, TrialStatus
from store.read.marks import Mark
from store.read.rows.round_rows import ProposalCost
from store.read.rows.run_rows import LegalHold, Removal
from workflows.model.run.amounts import Resource
from workflows.model.run.candidates import Rejection
from workflows.model.run.decisions import Decision
from workflows.model.run.first_look import FirstLook
from workflows.model.run.rounds import Counts, LimitsInForce, RoundRecord, RunStatus, Spend, Unanswered
from workflows.model.run.run_result import OptimizationResult
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.factors import Configuration, Factor, FlagFactor, FrozenFactor, TextFactor
from workflows.model.spec.judgement import Evidence, Noise, Plan, RaceDecision
from workflows.model.spec.release import ReleaseState
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import LeftOut
from workflows.model.trial import Purpose, Split, TrialSummary
from workflows.rules.scoring.error_counts import summed
from workflows.rules.scoring.objective_score import is_better
from workflows.rules.scoring.slices import Slices


class IterationStatus(StrEnum):
    """How an iteration ended, in the words of the exported history."""

    SUCCESS = "SUCCESS"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    SCORING_FAILED = "SCORING_FAILED"


class HistoryPart(Payload):
    """A part of a run that the exported history holds as it is. There its fields are in camel case; they are read in either."""

    model_config = Payload.model_config | {"alias_generator": to_camel, "populate_by_name": True}


class Statistics(HistoryPart):
    """What an iteration measured."""

    sample_count: int = 0
    success_rate: float = 0.0
    total_tokens: int = 0
    mean_latency_ms: float | None = None
    success_count: int = 0
    failure_count: int = 0
    total_cost: float = 0.0
    coverage: float = 0.0
    errors: dict[str, int] = Field(default_factory=dict)
    """How many answers failed or are missing, by the class of the error."""


class Answers(HistoryPart):
    """Single answers of a trial, as much of them as verdicts depend on, by the places of the samples in the split."""

    passes: tuple[tuple[int, int], ...] | None = None
    """Of every sample, how often it passed, of how many answers. None where no verdict depends on it."""
    measures: dict[str, tuple[tuple[float, ...], ...]] = Field(default_factory=dict)
    """What single answers took or scored, for every measure that a constraint or an objective names."""
    scores: tuple[tuple[float, ...], ...] | None = None
    """Of every sample that was answered more than once, what each answer adds to the objective."""


class Iteration(Payload):
    """One finished trial of the search."""

    number: int
    round: int
    candidate_id: str
    config_hash: str
    configuration: Configuration
    parents: tuple[str, ...] = ()
    rationale: str | None = None
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """What the optimizer noted: origin, operators, components."""
    split: str | None = None
    statistics: Statistics = Field(default_factory=Statistics)
    score: float | None = None
    """None when the trial failed: no made-up number can win."""
    low: float | None = None
    """95 % interval of the score over samples, as the store has it; None where the score is no mean of its samples."""
    high: float | None = None
    status: IterationStatus = IterationStatus.SUCCESS
    failure_reason: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    sample_means: tuple[float | None, ...] | None = None
    """The score of each sample, in the order of the suite."""
    answers: Answers | None = None
    """None where they were not read, or no verdict depends on more than scores."""
    evidence: tuple[Evidence, ...] = ()
    """What its comparison with the baseline, and with the best of its time, found."""
    trial_id: str = ""
    purpose: Purpose = Purpose.CANDIDATE
    index: int = 0
    """Its place among the round's proposals."""
    trial_status: TrialStatus = "completed"
    error: str | None = None
    failure: Literal["execution", "scoring"] | None = None
    first: int = 0
    """The first sample of its split that it was to answer, in the order of the suite."""
    samples: int = 0
    """How many samples it was to answer, as often as `replicates` says."""
    replicates: int = 1
    first_replicate: int = 0
    stopped_early: str | None = None
    looks: tuple[RaceDecision, ...] = ()
    """What each look at it decided, where it raced."""
    exhausted: Resource | None = None
    """The budget that did not cover all of it."""
    team_rest: TeamRest | None = None
    """What was left of the team's month, where it was that budget."""
    paid: Spend = Field(default_factory=Spend)
    lost: Spend = Field(default_factory=Spend)
    reused: int = 0

    @property
    def duration_ms(self) -> int | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return round((self.ended_at - self.started_at).total_seconds() * 1000)


def iteration_status(status: str, score: float | None, failure: str | None) -> IterationStatus:
    """How a trial ended, in the words of the exported history."""
    if status == "completed" and score is not None:
        return IterationStatus.SUCCESS
    return IterationStatus.SCORING_FAILED if failure == "scoring" else IterationStatus.EXECUTION_FAILED


def failure_reason(status: str, error: str | None) -> str:
    """Why a trial has no score."""
    if status == "failed":
        return error or "the trial failed"
    return f"{status}: {error}" if error else status


def statistics_of(summary: TrialSummary, coverage: float | None) -> Statistics:
    """A trial's figures."""
    return Statistics(
        sample_count=summary.total,
        success_rate=summary.pass_rate,
        total_tokens=summary.total_tokens,
        mean_latency_ms=summary.avg_latency_ms,
        success_count=summary.passed,
        failure_count=summary.failed,
        total_cost=summary.total_cost,
        coverage=coverage or 0.0,
        errors=summary.errors,
    )


class SplitSamples(HistoryPart):
    """The samples of a split, in the order of `sample_means`."""

    split: Split
    samples: int
    weights: tuple[float, ...] | None = None
    """None: all alike."""
    must_pass: dict[int, str] = Field(default_factory=dict)
    """The places and ids of the samples that candidates must pass, where single answers were read."""
    same_as: dict[int, int] = Field(default_factory=dict)
    """For samples that count as one with another: where they are, and where the first of their cluster is."""
    left_out: LeftOut | None = None


class RunFacts(Payload):
    """A run as reports see it."""

    run_id: str
    use_case: str
    experiment: str
    status: RunStatus
    request: OptimizationRequest
    result: OptimizationResult | None = None
    """None while the run goes on, and when it was ended from outside."""
    message: str = ""
    """How a run without a result was ended from outside."""
    iterations: tuple[Iteration, ...] = ()
    further: tuple[Iteration, ...] = ()
    """Trials beside the search: of the noise, on some samples only, of the confirmation. They have no number."""
    rounds: tuple[RoundRecord, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    counts: Counts = Field(default_factory=Counts)
    spend: Spend = Field(default_factory=Spend)
    cached_tokens: int = 0
    """Of the tokens that were paid for, those that came from a provider's cache."""
    lost: Unanswered = Field(default_factory=Unanswered)
    """What may have been paid for calls that gave no answer."""
    answers: int = 0
    reused: int = 0
    """Of the answers, those that were copied from other runs instead of paid for."""
    started_at: datetime
    finished_at: datetime | None = None
    stood_still_seconds: float = 0.0
    """Since the start, paused or served by nobody."""
    dataset_id: str | None = None
    dataset_name: str | None = None
    evaluation_suite_id: str | None = None
    search_split: Split = Split.ALL
    splits: tuple[SplitSamples, ...] = ()
    proposals: tuple[ProposalCost, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    slices: Slices | None = None
    """Baseline and best by part of the dataset."""
    slices_asked: bool = False
    """Whoever reads the report asked for them."""
    plan: Plan | None = None
    """What the run can find out."""
    noise: Noise | None = None
    first_look: FirstLook | None = None
    """What there is to see in the baseline's answers; from a file, only what is probably wrong."""
    releases: tuple[ReleaseState, ...] = ()
    """What was asked for in its name, the newest first."""
    sources_removed: int = 0
    """Runs whose answers it would have taken over, had no policy removed them before."""
    removals: tuple[Removal, ...] = ()
    """What policies have removed of it."""
    legal_holds: tuple[LegalHold, ...] = ()
    """As long as one is in force, nothing more is removed."""
    marks: tuple[Mark, ...] = ()
    """What people said of it: pins, tags and notes; no decision reads them."""
    adjusted: LimitsInForce | None = None
    """Stop rules and budget as people left them; None when they are those of the spec."""

    @property
    def direction(self) -> Direction:
        return self.request.objective.direction

    @property
    def round(self) -> int:
        """The last round that was decided; 0 is the baseline."""
        return max((record.round for record in self.rounds), default=0)

    @property
    def is_over(self) -> bool:
        return self.result is not None or bool(self.message)

    def elapsed_seconds(self, now: datetime) -> float:
        """Count how long the run has gone on, as its time budget does."""
        return max(((self.finished_at or now) - self.started_at).total_seconds() - self.stood_still_seconds, 0.0)

    @property
    def limits(self) -> LimitsInForce:
        """Stop rules and budget in force now, or when the run ended."""
        return self.adjusted or LimitsInForce(stop=self.request.stop, budget=self.request.budget)


@dataclass(frozen=True, slots=True)
class IterationStep:
    """An iteration and where the run stood after it."""

    iteration: Iteration
    best: Iteration | None
    new_best: bool


def steps(facts: RunFacts) -> Iterator[IterationStep]:
    """The iterations with the best so far, as it was decided; else successful and strictly better ones only."""
    best: Iteration | None = None
    decided = _last_decided_round(facts)
    for iteration in facts.iterations:
        counts = iteration.score is not None and (decided is None or iteration.round <= decided)
        decision = decision_on(facts, iteration)
        if decision is not None:
            better = decision.kept
        else:
            better = counts and (best is None or _better(iteration, best, facts.direction))
        if better:
            best = iteration
        yield IterationStep(iteration, best, new_best=better)


def decision_on(facts: RunFacts, iteration: Iteration) -> Decision | None:
    """What its round decided about a candidate; None while that is not decided."""
    decided = (record for record in facts.rounds if record.round == iteration.round)
    decisions = (decision for record in decided for decision in record.decisions)
    return next((decision for decision in decisions if decision.candidate_id == iteration.candidate_id), None)


def _better(iteration: Iteration, best: Iteration, direction: Direction) -> bool:
    assert iteration.score is not None and best.score is not None
    return is_better(iteration.score, best.score, direction)


def _last_decided_round(facts: RunFacts) -> int | None:
    """A run that was ended in the middle of a round never compared that round's trials. None: every round counts."""
    return None if facts.result is None or not facts.rounds else facts.round


def best_iteration(facts: RunFacts) -> Iteration | None:
    """The iteration that the run holds for its best; None when nothing succeeded."""
    named = facts.result.best_candidate_id if facts.result else None
    for iteration in facts.iterations:
        if named is not None and iteration.candidate_id == named and iteration.score is not None:
            return iteration
    last: Iteration | None = None
    for step in steps(facts):
        last = step.best
    return last


def confirmed_trials(facts: RunFacts) -> list[Iteration]:
    """Baseline and winner as the confirmation measured them; the baseline alone where it is the best."""
    measured = (one for one in facts.further if one.purpose is Purpose.CONFIRMATION and one.score is not None)
    return sorted(measured, key=lambda one: (one.round, one.index))


def first_success(facts: RunFacts) -> Iteration | None:
    """The iteration that improvement is counted from: the baseline, or the first that succeeded."""
    return next((iteration for iteration in facts.iterations if iteration.score is not None), None)


@dataclass(frozen=True, slots=True)
class Improvement:
    """From the first score to the best, as they are: negative is what a run that minimizes hopes for."""

    before: float
    after: float

    @property
    def absolute(self) -> float:
        return self.after - self.before

    @property
    def percent(self) -> float:
        """Of the first score; 0 when that is 0."""
        return self.absolute / abs(self.before) * 100 if self.before else 0.0


def compared(facts: RunFacts) -> list[tuple[Iteration, ScoreDifference | None]]:
    """Every measured configuration, the best first, with its difference to the baseline over the same samples."""
    baseline = first_success(facts)
    sign = -1 if facts.direction is Direction.MAXIMIZE else 1
    measured = [iteration for iteration in facts.iterations if iteration.score is not None]
    measured.sort(key=lambda iteration: (sign * (iteration.score or 0.0), iteration.number))
    return [(iteration, _difference(baseline, iteration, facts.direction)) for iteration in measured]


def _difference(baseline: Iteration | None, other: Iteration, direction: Direction) -> ScoreDifference | None:
    name = baseline.candidate_id if baseline is not None else None
    against = next((evidence for evidence in other.evidence if evidence.reference == name), None)
    return None if against is None else difference_of(against, direction)


def improvement(facts: RunFacts) -> Improvement | None:
    """How far the run came; None when nothing succeeded."""
    first, best = first_success(facts), best_iteration(facts)
    if first is None or first.score is None or best is None or best.score is None:
        return None
    return Improvement(first.score, best.score)


def treatment(facts: RunFacts) -> tuple[str, ...]:
    """The factors that the run changes: those its proposer can change, and those that a person's own candidates changed."""
    proposed = set(facts.request.optimizer.treatment(facts.request))
    baseline = {name: canonical_json(value) for name, value in facts.request.baseline.items()}
    for iteration in facts.iterations:
        proposed |= {
            name
            for name, value in iteration.configuration.items()
            if name in baseline and name not in proposed and canonical_json(value) != baseline[name]
        }
    return tuple(name for name in facts.request.configuration if name in proposed)


def errors_met(facts: RunFacts) -> dict[str, int]:
    """All answers of the run that failed or are missing, by the class of the error."""
    return summed(iteration.statistics.errors for iteration in facts.iterations)


def slices_to_tell(facts: RunFacts, *, in_full: bool) -> Slices | None:
    """A summary has them where somebody asked for some; by tag they stand in every full report."""
    asked = in_full or facts.slices_asked or bool(facts.request.dataset.slices)
    return facts.slices if asked and facts.slices is not None and facts.slices.slices else None


def looks_further(facts: RunFacts) -> bool:
    """Whether anything beside the baseline was to be measured."""
    return facts.request.optimizer.looks_further


def plan_of(facts: RunFacts) -> Plan | None:
    """What the run can find out, where it looks for anything."""
    return facts.plan if looks_further(facts) else None


def least_coverage(facts: RunFacts) -> float | None:
    """The share of answers in the iteration that has the fewest."""
    return min((iteration.statistics.coverage for iteration in facts.iterations), default=None)


def fixed_factors(facts: RunFacts) -> Configuration:
    """The factors that stay as they are, with their values."""
    varied = set(treatment(facts))
    return {name: value for name, value in facts.request.baseline.items() if name not in varied}


def factor_type(factor: Factor) -> str:
    """The type of a factor in the exported history's words."""
    match factor:
        case TextFactor():
            return "String"
        case FlagFactor():
            return "Boolean"
        case FrozenFactor():
            return _value_type(factor.value)
    return factor.type.capitalize()


def _value_type(value: Any) -> str:
    match value:
        case bool():
            return "Boolean"
        case str():
            return "String"
        case int():
            return "Integer"
        case float():
            return "Number"
    return "Json"
