"""The format of the exported history: one typed document, whose field names are those of the file.

It holds all that is needed to check a run's decisions again: every value, figure, score and decided round, with the settings
they were decided by.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import AliasChoices, Field, JsonValue, PlainSerializer

from clients.reports.facts import Answers, HistoryPart, IterationStatus, SplitSamples, Statistics
from ratchet.optimizer import StopReason, TrialStatus
from store.read.rows.round_rows import ProposalCost
from workflows.model.run.amounts import Resource
from workflows.model.run.candidates import ReasonCode
from workflows.model.run.decisions import FrontMember
from workflows.model.run.rounds import Counts, LimitsInForce, RunStatus, Spend, Unanswered
from workflows.model.run.run_result import OptimizationResult
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.factors import Configuration
from workflows.model.spec.judgement import Evidence, Noise, Plan, RaceDecision, Verdict
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Purpose, Split
from workflows.rules.scoring.slices import Slice

SCHEMA_VERSION: Final = "ratchet-optimize-1"
FINGERPRINT: Final = "contentFingerprint"


def instant(moment: datetime) -> str:
    """UTC, ISO 8601, with `Z`."""
    utc = moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds" if utc.microsecond >= 1000 else "seconds").replace("+00:00", "Z")


Instant = Annotated[datetime, PlainSerializer(instant, return_type=str)]


class TreatmentFactor(HistoryPart):
    name: str
    type: str


class _Measured(HistoryPart):
    iteration_number: int
    candidate_id: str | None = None
    factor_suit: Configuration = Field(validation_alias=AliasChoices("factorSuit", "factor_suit", "factorValues"))
    statistics: Statistics
    score: float | None = None


class RecordedTrial(HistoryPart):
    """How an iteration was measured, and how that ended."""

    trial_id: str = ""
    purpose: Purpose = Purpose.CANDIDATE
    index: int = 0
    """Its place among the round's proposals."""
    status: TrialStatus = "completed"
    error: str | None = None
    failure: Literal["execution", "scoring"] | None = None
    first: int = 0
    samples: int = 0
    replicates: int = 1
    first_replicate: int = 0
    stopped_early: str | None = None
    exhausted: Resource | None = None
    team_rest: TeamRest | None = None
    paid: Spend = Field(default_factory=Spend)
    lost: Spend = Field(default_factory=Spend)
    reused: int = 0


class RecordedIteration(_Measured):
    status: IterationStatus
    failure_reason: str | None = None
    round: int
    config_hash: str | None = None
    parents: tuple[str, ...] = ()
    rationale: str | None = None
    dataset_split: str | None = None
    start_time: Instant | None = None
    end_time: Instant | None = None
    duration_ms: int | None = None
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    trial: RecordedTrial = Field(default_factory=RecordedTrial)
    evidence: tuple[Evidence, ...] = ()
    """What its comparisons found."""
    looks: tuple[RaceDecision, ...] = ()
    """What each look at it decided, where it raced."""
    sample_means: tuple[float | None, ...] | None = None
    """The score of every sample, in the order of the split; none where it was not answered."""
    answers: Answers | None = None


class BestIteration(_Measured):
    pass


class RecordedDecision(HistoryPart):
    candidate_id: str
    kept: bool = False
    reference: str | None = None
    verdict: Verdict | None = None
    accepted: bool | None = None
    adjusted_p: float | None = None
    family: int = 0
    objectives: dict[str, Verdict] = Field(default_factory=dict)
    explanation: str = ""


class RecordedRound(HistoryPart):
    round: int
    decided_at: datetime
    candidate_ids: tuple[str, ...] = ()
    best_score: float | None = None
    best_candidate_id: str | None = None
    best_so_far: float | None = None
    best_so_far_id: str | None = None
    new_best: bool = False
    stop_reason: StopReason | None = None
    stopped: bool = False
    counts: Counts = Field(default_factory=Counts)
    spend: Spend = Field(default_factory=Spend)
    lost: Spend = Field(default_factory=Spend)
    decisions: tuple[RecordedDecision, ...] = ()
    pareto_front: tuple[FrontMember, ...] = ()
    paused_for: timedelta = timedelta(0)
    limits: LimitsInForce | None = None
    """Stop rules and budget, once people had changed them."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    status: RunStatus = "running"


class RecordedRejection(HistoryPart):
    round: int
    proposed_index: int
    reason_code: ReasonCode
    message: str
    config_hash: str | None = None
    parents: tuple[str, ...] = ()


class RecordedInterval(HistoryPart):
    estimate: float
    low: float | None = None
    high: float | None = None
    confidence: float
    sample_count: int


class RecordedConfirmation(HistoryPart):
    baseline_score: float | None = None
    best_score: float | None = None
    difference: RecordedInterval | None = None
    verdict: Verdict | None = None
    p_value: float | None = None
    promised: float | None = None
    """The gain that the search saw."""
    optimism: float | None = None
    explanation: str = ""


class RecordedSlices(HistoryPart):
    split: str
    slices: tuple[Slice, ...]
    left_out: dict[str, int] = Field(default_factory=dict)


class TerminationReason(HistoryPart):
    cause: str
    message: str
    reason: StopReason | None = None
    """Ratchet's own, which is finer than the cause."""


class Components(HistoryPart):
    """What decided, with its parameters."""

    objective: dict[str, JsonValue]
    scorers: tuple[dict[str, JsonValue], ...]
    optimizer: dict[str, JsonValue]
    stop: dict[str, JsonValue]
    budget: dict[str, JsonValue]
    max_consecutive_failed_trials: int
    min_coverage: float
    replicates: int | Literal["auto"]
    samples_per_trial: int | None = None
    seed: int


class RecordedHistory(HistoryPart):
    """The whole document, in the order in which it is written."""

    schema_version: Literal["ratchet-optimize-1"] = SCHEMA_VERSION
    run_id: str
    use_case_id: str
    experiment_id: str
    status: RunStatus
    treatment_factor_name: str
    treatment_factor_type: str
    treatment_factors: tuple[TreatmentFactor, ...]
    fixed_factors: Configuration
    objective: Literal["MAXIMIZE", "MINIMIZE"]
    scorer_description: str
    mutator_description: str
    termination_policy_description: str
    components: Components
    dataset_id: str | None = None
    evaluation_suite_id: str | None = None
    search_split: Split = Split.ALL
    splits: tuple[SplitSamples, ...] = ()
    start_time: Instant
    end_time: Instant | None = None
    total_duration_ms: int | None = None
    iterations: tuple[RecordedIteration, ...]
    further_trials: tuple[RecordedIteration, ...] = ()
    """Of the noise, on some samples only, and of the confirmation."""
    proposals: tuple[ProposalCost, ...] = ()
    """What the proposals of each round took."""
    rounds: tuple[RecordedRound, ...] = ()
    rejections: tuple[RecordedRejection, ...] = ()
    best_iteration: BestIteration | None = None
    confirmation: RecordedConfirmation | None = None
    slices: RecordedSlices | None = None
    termination_reason: TerminationReason | None = None
    score_improvement: float | None = None
    score_improvement_percent: float | None = None
    total_iterations: int
    counts: Counts = Field(default_factory=Counts)
    spend: Spend = Field(default_factory=Spend)
    lost: Unanswered = Field(default_factory=Unanswered)
    answers: int = 0
    reused: int = 0
    plan: Plan | None = None
    noise: Noise | None = None
    result: OptimizationResult | None = None
    """The run's own result, whole."""
    versions: dict[str, str] = Field(default_factory=dict)
    spec: OptimizationRequest
    content_fingerprint: str | None = None
    """sha256 over the content without itself."""
