"""What HTTP answers and what the HTML report holds, in the names that outsiders rely on: `optimization_id`, `mask_id`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from clients.reports.comparisons.diff import FactorDifference, differences
from clients.reports.headline import Headline, headline_of_row
from clients.reports.removal_notes import hold_text, removal_text
from ratchet._frozen import Payload
from store.read.candidates import Ancestor, StoredCandidate
from store.read.marks import Mark, RunMarks
from store.read.rows import round_rows, run_rows
from store.read.rows.proposal_rows import RejectedProposal
from workflows.model.run.candidates import ReasonCode
from workflows.model.run.decisions import FrontMember
from workflows.model.run.first_look import FirstLook
from workflows.model.run.rounds import Counts, RunStatus, Spend, Unanswered
from workflows.model.run.run_result import Confirmation, OptimizationResult
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.execution import Budget, Stop
from workflows.model.spec.judgement import Verdict
from workflows.rules.decisions.time_left import seconds_left
from workflows.rules.scoring.slices import Slices


class Optimization(Payload):
    """Where a run stands."""

    optimization_id: str
    name: str
    use_case: str
    experiment: str
    status: RunStatus
    stop_reason: str | None
    message: str
    optimizer: str
    objective_name: str
    direction: Literal["maximize", "minimize"]
    round: int
    """The last decided round; 0 is the baseline."""
    counts: Counts
    spend: Spend
    cached_tokens: int = 0
    """Of the tokens that were paid for, those that came from a provider's cache."""
    baseline_candidate_id: str | None
    baseline_score: float | None
    best_candidate_id: str | None
    best_score: float | None
    """In the search."""
    headline: Headline
    """What the run comes to: the figure to lead with."""
    search_verdict: Verdict | None
    """Of the best candidate against the best of its time, as its round decided."""
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    stood_still_seconds: float
    """Since the start, paused or served by no worker: what the time budget does not count."""


class ListedOptimization(Optimization):
    """A run in the list."""

    max_rounds: int
    """As in force; 0 is no limit."""
    budget: dict[str, float]
    """As in force: cost, tokens, samples, trials, wall_time in seconds; 0 is unlimited."""
    confirmation: Confirmation | None
    """Of the search's winner, with the evidence, once the run is over."""
    waits_for: tuple[str, ...] = ()
    """Task queues that the run waits on and that nobody serves; it goes on when a worker does."""
    waits_for_team: TeamRest | None = None
    """What is left of the team's month, where that covers no call now; it goes on when other runs give back, or with more."""
    marks: RunMarks = RunMarks()
    """What people said of the run as a whole."""


class MarkPage(Payload):
    """What people said of a run, its candidates and their answers, in the order in which they did."""

    total: int
    items: tuple[Mark, ...]


class OptimizationPage(Payload):
    """Some of the runs, the newest first."""

    total: int
    items: tuple[ListedOptimization, ...]


class InFlight(Payload):
    """The trials that run now."""

    answered: int
    expected: int
    """Answers they will have when they are over."""
    trials: tuple[run_rows.TrialInFlight, ...]


class OptimizationDetail(ListedOptimization):
    """A run with all that the store has of it but its trials."""

    spec: dict[str, Any]
    """The spec it was started with."""
    stop: Stop
    """As in force."""
    limits: dict[str, Any]
    """What was adjusted while it ran: concurrency, priority, rate limits."""
    result: OptimizationResult | None
    first_look: FirstLook | None
    """What there is to see in the baseline's answers, once it was measured."""
    removals: tuple[run_rows.Removal, ...] = ()
    """What policies have removed of it."""
    removed: str = ""
    """The same as a sentence; empty where everything is there."""
    legal_holds: tuple[run_rows.LegalHold, ...] = ()
    """As long as one is in force, nothing of the run is removed."""
    held: str = ""
    """The same in words."""
    lost: Unanswered
    in_flight: InFlight
    seconds_left: float | None
    """Until the rounds, or the first of the budgets, are used up at the rate of so far; a stop rule may end it sooner. None
    where nothing bounds the run, and while it does not go on."""
    dataset_id: str
    dataset_name: str
    dataset_count: int
    dataset_merged: int
    """How many of the samples it draws count as one with another: copies of a content, and those of a group."""
    evaluation_suite_id: str
    search_split: str
    task_queue: str
    versions: dict[str, str]
    execution: Literal["open", "closed", "unknown"]
    """Its workflow in Temporal; a run that is neither over nor open was ended from outside."""
    temporal_url: str | None
    """Where Temporal's own UI shows it."""
    last_event_id: int
    """Events after this one tell what this answer does not yet know."""


class ComparedAncestor(Payload):
    """A candidate and what another one changed of it."""

    candidate_id: str | None
    mask_id: str
    objective_score: float | None
    changes: tuple[FactorDifference, ...]


class CandidateDetail(Payload):
    """A candidate, and what it changes of the baseline and of each of its parents."""

    optimization_id: str
    candidate_id: str
    mask_id: str
    round: int
    index: int
    rationale: str | None
    extra: dict[str, Any] = Field(default_factory=dict)
    """What the optimizer noted: origin, operators, components, parameters."""
    configuration: dict[str, Any]
    baseline: ComparedAncestor
    parents: tuple[ComparedAncestor, ...]
    children: tuple[str, ...]


class RejectedDetail(Payload):
    """A proposal that was kept out, with its text."""

    optimization_id: str
    round: int
    proposed_index: int
    reason_code: ReasonCode
    message: str
    parent_candidate_ids: tuple[str, ...]
    mask_id: str | None
    known: bool
    """Whether its text was kept: that of people's own proposals is not."""
    against: str | None
    """The candidate that it is compared with: its first parent, else the baseline."""
    changes: tuple[FactorDifference, ...]
    rationale: str | None
    asked_index: int | None
    """Of listProposals: what was asked for it in its round."""


class Slice(Payload):
    """One part of the dataset, with what the trial and the baseline scored on it."""

    name: str
    """A tag, or `input.language=de`."""
    samples: int
    baseline_score: float | None
    objective_score: float | None
    """None where no sample of it was answered."""


class TrialSlices(Payload):
    """A trial beside the baseline's on the same samples, by slice."""

    optimization_id: str
    candidate_id: str
    split: str
    slices: tuple[Slice, ...]
    """The largest first within its field. Empty where no sample has such a field."""
    left_out: dict[str, int]
    """By field, how many more values it has than are shown."""


class Round(Payload):
    """A decided round."""

    round_index: int
    candidate_ids: tuple[str, ...]
    best_score: float | None
    best_candidate: str | None
    best_so_far: float | None
    best_so_far_candidate: str | None
    new_best: bool
    stop_reason: str | None
    stopped: bool
    counts: Counts
    spend: Spend
    """Of the run, up to this round."""
    pareto_front: tuple[FrontMember, ...]
    """Candidates that no other one beats in every objective, where there are several."""
    extra: dict[str, Any]
    timestamp: datetime


class RoundPage(Payload):
    """Some of a run's rounds, the baseline's first."""

    total: int
    items: tuple[Round, ...]


class Happening(Payload):
    """An event, as the stream tells it."""

    id: int
    type: str
    at: datetime
    facts: dict[str, Any]


class Log(Payload):
    """Some of what happened to a run, the newest first."""

    items: tuple[Happening, ...]
    has_more: bool
    """There is more before the oldest of these: ask with its id as `before`."""


class Started(Payload):
    """A run that was started, or that there was."""

    optimization_id: str
    status: str
    created: bool
    """False when this spec runs already, or ran before; `new=true` starts another."""
    unseen: tuple[str, ...] = ()
    """Fields whose content the id does not speak of, because this server may not read what they name: a file, an object, the
    code of a plug-in whose version is not stated. When that has changed, ask with `new=true`."""


class Done(Payload):
    """What became of a wish."""

    optimization_id: str
    status: str
    message: str


class EndedExperiment(Payload):
    """What an external runner announces."""

    workflow_id: str = Field(max_length=1_000)
    """The trial: `completion.workflow_id` of the request that triggered the experiment."""
    experiment_id: str = Field(max_length=1_000)
    """The runner's own id of it."""
    status: str = Field(default="completed", max_length=100)


class StopWish(Payload):
    """Why the run is to stop early."""

    reason: str = Field(default="", max_length=200)
    """It is written in the report."""


def optimization_of(row: run_rows.RunSummary) -> dict[str, Any]:
    """The fields that every form of a run has."""
    values = row.model_dump()
    return {**values, "optimization_id": row.run_id, "objective_name": row.objective, "headline": headline_of_row(row)}


def listed_of(
    row: run_rows.ListedRun, waits_for: tuple[str, ...] = (), waits_for_team: TeamRest | None = None
) -> ListedOptimization:
    """A run of the list."""
    return ListedOptimization(
        **{
            **optimization_of(row),
            "budget": budget_in_seconds(Budget.model_validate(row.budget)),
            "waits_for": waits_for,
            "waits_for_team": waits_for_team,
            "marks": row.marks,
        }
    )


def detail_of(
    row: run_rows.RunDetail,
    progress: run_rows.LiveProgress,
    *,
    execution: Literal["open", "closed", "unknown"],
    last_event_id: int,
    with_spec: bool = True,
    waits_for: tuple[str, ...] = (),
    waits_for_team: TeamRest | None = None,
    temporal_url: str | None = None,
) -> OptimizationDetail:
    """A run in full, with its limits as in force."""
    stop = Stop.model_validate(row.limits.get("stop") or row.spec.get("stop") or {})
    budget = Budget.model_validate(row.limits.get("budget") or row.spec.get("budget") or {})
    goes_on = row.status == "running" and execution != "closed" and not waits_for
    elapsed = row.elapsed_seconds(datetime.now(UTC))
    return OptimizationDetail(
        **{
            **optimization_of(row),
            "spec": row.spec if with_spec else {},
            "stop": stop,
            "max_rounds": stop.max_rounds,
            "budget": budget_in_seconds(budget),
            "seconds_left": seconds_left(stop, budget, row.spend, row.round, elapsed) if goes_on else None,
            "in_flight": InFlight(answered=progress.answered, expected=progress.expected, trials=progress.in_flight),
            "execution": execution,
            "waits_for": waits_for,
            "waits_for_team": waits_for_team,
            "temporal_url": temporal_url,
            "last_event_id": last_event_id,
            "removed": removal_text(row.removals),
            "held": hold_text(row.legal_holds),
        }
    )


def budget_in_seconds(budget: Budget) -> dict[str, float]:
    """Every limit as a number."""
    return {name: float(value) for name, value in budget.model_dump(mode="json").items()}


def candidate_of(run_id: str, candidate: StoredCandidate) -> CandidateDetail:
    """A candidate with what it changes of its baseline and of its parents; long texts take a while to compare."""

    def against(ancestor: Ancestor) -> ComparedAncestor:
        return ComparedAncestor(
            candidate_id=ancestor.candidate_id,
            mask_id=ancestor.config_hash,
            objective_score=ancestor.score,
            changes=differences(ancestor.configuration, candidate.configuration),
        )

    return CandidateDetail(
        optimization_id=run_id,
        candidate_id=candidate.candidate_id,
        mask_id=candidate.config_hash,
        round=candidate.round,
        index=candidate.index,
        rationale=candidate.rationale,
        extra=candidate.extra,
        configuration=candidate.configuration,
        baseline=against(candidate.baseline),
        parents=tuple(against(parent) for parent in candidate.parents),
        children=candidate.children,
    )


def rejected_of(run_id: str, found: RejectedProposal) -> RejectedDetail:
    """A rejection with what it would have changed; long texts take a while to compare."""
    rejection, reference = found.rejection, found.reference
    proposed = found.configuration if found.values is None else {**reference, **found.values}
    return RejectedDetail(
        optimization_id=run_id,
        round=rejection.round,
        proposed_index=rejection.proposed_index,
        reason_code=rejection.reason_code,
        message=rejection.message,
        parent_candidate_ids=rejection.parent_candidate_ids,
        mask_id=rejection.config_hash,
        known=proposed is not None,
        against=found.reference_id,
        changes=() if proposed is None else tuple(differences(reference, proposed)),
        rationale=found.rationale,
        asked_index=found.asked_index,
    )


def slices_of(run_id: str, candidate_id: str, found: Slices) -> TrialSlices:
    """Slices in the words of the API."""
    parts = (
        Slice(name=part.name, samples=part.samples, baseline_score=part.baseline, objective_score=part.best)
        for part in found.slices
    )
    return TrialSlices(
        optimization_id=run_id, candidate_id=candidate_id, split=found.split, slices=tuple(parts), left_out=found.left_out
    )


def round_of(row: round_rows.RoundRow) -> Round:
    """A round in the words of the history."""
    record = row.record
    return Round(
        round_index=row.round,
        candidate_ids=tuple(record.get("candidate_ids", ())),
        best_score=row.best_score,
        best_candidate=row.best_candidate_id,
        best_so_far=row.best_so_far,
        best_so_far_candidate=row.best_so_far_id,
        new_best=bool(record.get("new_best")),
        stop_reason=row.stop_reason,
        stopped=row.stopped,
        counts=Counts.model_validate(record.get("counts", {})),
        spend=Spend.model_validate(record.get("spend", {})),
        pareto_front=tuple(record.get("pareto_front", ())),
        extra=row.extra,
        timestamp=row.decided_at,
    )
