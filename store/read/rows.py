"""What clients read of the store: frozen rows, ready to be written as JSON.

Dumped by alias they are in the words of the API: `optimization_id`, `mask_id`, `objective_score`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from ratchet._frozen import Payload
from store.read.marks import Mark, RunMarks
from workflows.model.run.amounts import Resource
from workflows.model.run.candidates import ReasonCode
from workflows.model.run.contract import Confirmation, OptimizationResult
from workflows.model.run.decisions import Decision
from workflows.model.run.first_look import FirstLook
from workflows.model.run.rounds import Counts, RunStatus, Spend, Unanswered
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.judgement import Evidence, Noise, Plan, RaceDecision, Verdict
from workflows.model.spec.release import ReleaseState
from workflows.model.suite import LeftOut
from workflows.model.trial import Purpose, Split, TrialSummary


class UnprovenCandidate(Payload):
    """The winner of a search that does not hold, without its configuration."""

    candidate_id: str
    score: float
    """In the search."""
    why: str


class RunSummary(Payload):
    """One line per run."""

    run_id: str
    name: str
    use_case: str
    experiment: str
    status: RunStatus
    stop_reason: str | None
    message: str
    optimizer: str
    objective: str
    direction: str
    round: int
    counts: Counts
    spend: Spend
    baseline_candidate_id: str | None
    baseline_score: float | None
    best_candidate_id: str | None
    best_score: float | None
    confirmation: Confirmation | None = None
    """Of the search's winner, once the run is over."""
    unproven: UnprovenCandidate | None = None
    """The search's winner, where the result is the baseline instead."""
    search_verdict: Verdict | None = None
    """Of the best candidate against the best of its time, as its round decided."""
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    stood_still_seconds: float = 0.0
    """Since the start, paused or served by nobody: what the time budget does not count."""

    def elapsed_seconds(self, now: datetime) -> float:
        """Count how long the run has gone on, as its time budget does."""
        return max(((self.finished_at or now) - self.started_at).total_seconds() - self.stood_still_seconds, 0.0)


class ListedRun(RunSummary):
    """A run with what its progress is measured against."""

    max_rounds: int
    """As in force now; 0 is no limit. Likewise the budget."""
    budget: dict[str, Any]
    marks: RunMarks = RunMarks()


class RunPage(Payload):
    total: int
    items: tuple[ListedRun, ...]


class TrialInFlight(Payload):
    """A trial that runs now."""

    candidate_id: str
    purpose: Purpose
    round: int
    answered: int
    expected: int
    """Answers it will have when it is over."""
    started_at: datetime


class LiveProgress(RunSummary):
    """What a progress display polls."""

    answered: int
    """Answers of the trials that run now."""
    expected: int
    """Answers they will have when they are over."""
    in_flight: tuple[TrialInFlight, ...] = ()
    """These trials, in the order of their proposals."""


class Removal(Payload):
    """What a policy has removed of a run."""

    run_id: str = ""
    """Empty where it is told with its run."""
    kind: Literal["texts", "answers", "runs"]
    policy: str
    """The rule that it was removed by: `texts=30d`."""
    at: datetime
    complete: bool
    """False while more is to be removed."""
    answers: int = 0
    bytes: int = 0
    """About."""


class LegalHold(Payload):
    """As long as it is in force, nothing of a run is removed."""

    label: str
    reason: str = ""
    set_by: str
    through: str
    """How that name was established."""
    set_at: datetime


class RunDetail(RunSummary):
    """A run with all that is stored in its row."""

    spec: dict[str, Any]
    result: OptimizationResult | None
    dataset_id: str
    dataset_name: str
    dataset_count: int
    dataset_merged: int = 0
    """How many of the samples it draws count as one with another."""
    evaluation_suite_id: str
    search_split: Split
    limits: dict[str, Any]
    """What the adjust update changed of budget, stop rules and concurrency."""
    task_queue: str
    versions: dict[str, str]
    life: int
    plan: Plan | None = None
    """What the run can find out."""
    noise: Noise | None = None
    """How much the baseline's scores vary, where that was measured first."""
    first_look: FirstLook | None = None
    """What there is to see in the baseline's answers, once it was measured."""
    lost: Unanswered = Field(default_factory=Unanswered)
    removals: tuple[Removal, ...] = ()
    """What policies have removed of it since it began, in order."""
    legal_holds: tuple[LegalHold, ...] = ()
    """Those in force."""
    sources_removed: int = 0
    """Runs whose answers it would have taken over, had no policy removed them before."""


class RoundRow(Payload):
    """A decided round. `record` is the RoundRecord in full, but for its rejections."""

    round: int
    best_candidate_id: str | None
    best_score: float | None
    best_so_far_id: str | None
    best_so_far: float | None
    stop_reason: str | None
    stopped: bool
    extra: dict[str, Any]
    record: dict[str, Any]
    decided_at: datetime


class RoundPage(Payload):
    total: int
    items: tuple[RoundRow, ...]


class Trial(Payload):
    """The evaluation of one candidate."""

    run_id: str = Field(serialization_alias="optimization_id")
    candidate_id: str
    config_hash: str = Field(serialization_alias="mask_id")
    """The overlay it ran against: the hash of its configuration."""
    experiment_id: str
    """The external runner's, where one runs the trial; else its own."""
    purpose: Purpose
    status: str
    """`running`, `completed`, `failed`, `cancelled` or `timeout`."""
    score: float | None = Field(serialization_alias="objective_score")
    coverage: float | None
    summary: TrialSummary
    stopped_early: str | None
    error: str | None
    failure: str | None
    evidence: tuple[Evidence, ...]
    """What its comparison with the baseline, and with the best of its time, found."""
    judged: Decision | None
    """What its round decided about it, and why."""
    round: int
    index: int
    parent_candidate_ids: tuple[str, ...]
    rationale: str | None
    extra: dict[str, Any]
    split: Split
    samples: int
    part: str
    """Tells trials of some samples only apart; empty for a trial in full."""
    first_sample: int
    """The place of its first sample in the split."""
    split_samples: int
    """How many samples the split has."""
    replicates: int
    first_replicate: int
    paid_samples: int
    paid_tokens: int
    paid_cost: float
    reused_samples: int
    duration_ms: int | None
    started_at: datetime
    finished_at: datetime | None


class TrialDetail(Trial):
    """A trial with its configuration and what each sample scored."""

    configuration: dict[str, Any]
    sample_means: tuple[float | None, ...] | None


class TrialInFull(TrialDetail):
    """A trial with what reports and replays tell of it beside what the API does."""

    trial_id: str
    score_low: float | None = None
    score_high: float | None = None
    lost_samples: int = 0
    """Calls without an answer that may have been paid for."""
    lost_tokens: int = 0
    lost_cost: float = 0.0
    exhausted: Resource | None = None
    """The budget that did not cover the whole trial."""
    team_rest: TeamRest | None = None
    """What was left of the team's month, where it was that budget."""
    looks: tuple[RaceDecision, ...] = ()
    """At a trial that raced: what each look at it decided."""


class TrialPage(Payload):
    """Some of a run's trials, in the order of their proposals."""

    total: int
    items: tuple[Trial, ...]


class Rejection(Payload):
    """A proposal that was kept out before anything was spent on it."""

    round: int
    proposed_index: int
    reason_code: ReasonCode
    message: str
    config_hash: str | None = Field(serialization_alias="mask_id")
    parent_candidate_ids: tuple[str, ...]


class RejectionPage(Payload):
    """Some of a run's rejections, in their order."""

    total: int
    items: tuple[Rejection, ...]


class Node(Payload):
    """A candidate in the lineage."""

    candidate_id: str
    config_hash: str = Field(serialization_alias="mask_id")
    round: int
    index: int
    status: str | None
    """None for a candidate whose trial in full has not begun."""
    score: float | None = Field(serialization_alias="objective_score")
    rationale: str | None
    is_best: bool
    is_baseline: bool
    parts: int
    """How often it was measured on some samples only."""


class Edge(Payload):
    """From a parent to its child; a candidate may have several parents."""

    parent: str
    child: str


class Graph(Payload):
    """The true lineage; a candidate may have several parents."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


class ItemRow(Payload):
    """One outcome with its sample."""

    position: int
    replicate: int
    item_id: str
    item_hash: str
    input: Any
    expected: Any
    weight: float
    tags: tuple[str, ...]
    status: str
    passed: bool
    scores: dict[str, float]
    score_details: dict[str, Any] = Field(default_factory=dict)
    output: Any
    error: str | None
    feedback: str
    tokens: int
    cost: float
    latency_ms: float | None
    ttft_ms: float | None
    trace: Any
    reused_from: str | None
    created_at: datetime
    printed: str | None
    """The end of what target and scorers printed, where they are code of the user's."""
    echoed: bool
    """Whether the target said that it used the candidate's configuration."""
    texts_removed: bool = False
    """Its texts are gone, by a policy."""


class ItemPage(Payload):
    total: int
    items: tuple[ItemRow, ...]


class EventRow(Payload):
    """Something that happened; `id` is the SSE event id, `key` names the happening itself."""

    id: int
    run_id: str
    key: str = ""
    type: str
    payload: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class WireEvent:
    """An event for those who only pass it on: its payload is JSON text."""

    id: int
    key: str
    type: str
    payload: str
    created_at: datetime


class DrawnSplit(Payload):
    """The samples that trials of a run were measured on."""

    split: Split
    samples: int
    weights: tuple[float, ...] | None
    """In the order of the suite; None when all weigh alike."""
    same_as: dict[int, int] = Field(default_factory=dict)
    """For samples that count as one with another: where they are, and where the first of their cluster is."""
    left_out: LeftOut | None = None


class ProposalCost(Payload):
    """What the proposals of a round took."""

    round: int
    tokens: int = 0
    cost: float = 0.0


class RunReport(Payload):
    """Everything a report, an export or a replay of decisions needs."""

    run: RunDetail
    rounds: tuple[RoundRow, ...]
    trials: tuple[TrialInFull, ...]
    rejections: tuple[Rejection, ...]
    splits: tuple[DrawnSplit, ...] = ()
    proposals: tuple[ProposalCost, ...] = ()
    releases: tuple[ReleaseState, ...] = ()
    """What was asked for in its name, the newest first."""
    marks: tuple[Mark, ...] = ()
    """What people said of it; no decision reads that."""
