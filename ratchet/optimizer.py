"""The optimizer protocol: an algorithm proposes and observes, the frame does everything else.

An optimizer never talks to a runner, a store or a screen. Its state is serializable and bounded; the same state, the same
history and the same seed give the same proposals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from enum import StrEnum
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ratchet.plugins import Record


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Direction(StrEnum):
    """Which way the objective's score gets better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


class RunContext(_Fact):
    """What an optimizer is told once, after the baseline was measured."""

    optimization_id: str
    evaluation_suite_id: str
    objective_name: str
    direction: Direction
    baseline_candidate_id: str
    baseline_score: float
    max_candidates_per_step: int
    factors: tuple[str, ...] = ()
    """The treatment: the factors that may change."""
    seed: int = 0
    search_samples: int = 0
    """How many samples candidates are scored on."""
    train_samples: int = 0
    """How many there are to learn from; those of the search where no others were set apart."""
    domains: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """How every factor may change, as the spec says it. Told to optimizers that are given by reference."""
    baseline: dict[str, Any] = Field(default_factory=dict)
    """The baseline's configuration. Told to optimizers that are given by reference."""


class OptimizerState(_Fact):
    """All an optimizer remembers between rounds."""

    generation: int = 0
    best_candidate_id: str | None = None
    best_score: float | None = None
    algorithm_data: dict[str, JsonValue] = Field(default_factory=dict)
    notes: dict[str, JsonValue] = Field(default_factory=dict)
    """What the history keeps with the round that was just observed: the Pareto front, how parents were selected. Small."""


class Withdrawal(_Fact):
    """Why an optimizer does not want its own proposal tried."""

    reason_code: str
    """One of the codes that rejections have, e.g. `not_smaller`."""
    message: str


class Part(_Fact):
    """Some samples only: to learn from a candidate, not to score it."""

    split: Literal["train", "search"] = "search"
    """`search`: those that candidates are scored on. `train`: those set apart to learn from, or the former where none were."""
    first: int = Field(default=0, ge=0)
    """Place of the first one in the split's seeded order."""
    count: int | None = Field(default=None, ge=1)
    """How many of them. None: up to the last."""


class CandidateProposal(_Fact):
    """A full configuration to try."""

    configuration: dict[str, Any]
    parent_candidate_ids: tuple[str, ...] = ()
    rationale: str | None = None
    resample: bool = False
    """Let a configuration that is already known be tried again, as a candidate of its own with fresh answers."""
    part: Part | None = None
    """Measure these samples only, to learn from the candidate, be it new or known. What is answered counts when the same
    configuration is proposed in full later. A step that measures nothing but parts does not end the round."""
    withdrawn: Withdrawal | None = None
    """Found out not to be worth a trial: it is kept for the record, as a rejection with this reason."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """For the history: origin, operators, components, parameters."""


TrialStatus = Literal["completed", "failed", "cancelled", "timeout"]
TrialVerdict = Literal["better", "not_worse", "worse", "inconclusive"]


class TrialFacts(_Fact):
    """One finished trial as an optimizer sees it."""

    candidate_id: str
    config_hash: str
    parent_candidate_ids: tuple[str, ...] = ()
    round: int
    score: float | None = None
    status: TrialStatus
    success_rate: float | None = None
    tokens: int = 0
    cost: float = 0.0
    kept: bool = False
    """It became the best of the run when its round was decided."""
    verdict: TrialVerdict | None = None
    """Against the best of its time (or the baseline, where the spec asks for no more than not being worse)."""
    accepted: bool | None = None
    """Whether what the spec's rule asks for was shown, must-pass samples and constraints included."""
    regressions: int | None = None
    """Samples that its reference passes in every replicate, and it does not."""
    stopped_early: str | None = None
    """Why it was not measured in full, when it was not."""
    split: str | None = None
    """Where a part was measured: `train`, or the split that candidates are scored on. None for a trial in full."""
    part: Part | None = None
    """The samples it was measured on, when these were not all; with their count."""
    configuration: dict[str, Any] | None = None
    """What was tried. Told to optimizers that are given by reference, in the history and in what they observe."""
    sample_scores: tuple[float | None, ...] = ()
    """The score of each sample, by its place in the split. Told to optimizers that are given by reference."""
    records: tuple[Record, ...] = ()
    """Evaluated samples, failed ones first. Told to optimizers that are given by reference, of what they observe."""


class TrialHistory(_Fact):
    """Every finished trial of the run, in the order of the proposals."""

    trials: tuple[TrialFacts, ...] = ()


class StopFacts(_Fact):
    """What a stop policy is told after a round."""

    round: int
    """Rounds finished after the baseline."""
    direction: Direction
    baseline_score: float | None
    best_score: float | None
    best_candidate_id: str | None
    improved_round: int
    """The round of the last improvement."""
    elapsed_seconds: float
    """Since the start, as long as the run was served and not paused."""
    trials: int
    samples: int
    tokens: int
    cost: float
    history: TrialHistory = TrialHistory()
    """Every finished trial of the search."""


class StopReason(StrEnum):
    """Why a run ended. One enum for optimizers and for the frame."""

    TARGET_REACHED = "target_reached"
    CONVERGENCE = "convergence"
    NO_IMPROVEMENT = "no_improvement"
    ALGORITHM_SPECIFIC = "algorithm_specific"
    MAX_ROUNDS = "max_rounds"
    TIME_BUDGET = "time_budget"
    TOKEN_BUDGET = "token_budget"  # noqa: S105 (a budget, not a secret)
    COST_BUDGET = "cost_budget"
    SAMPLE_BUDGET = "sample_budget"
    BASELINE_FAILED = "baseline_failed"
    FIRST_LOOK = "first_look"
    PROPOSAL_FAILURE = "proposal_failure"
    SCORING_FAILURE = "scoring_failure"
    EXECUTION_FAILURE = "execution_failure"
    TOO_MANY_FAILURES = "too_many_failures"
    STOPPED_EARLY = "stopped_early"
    CANCELLED = "cancelled"
    COMPLETED = "completed"


class StopDecision(_Fact):
    """Whether the algorithm wants to stop, and why."""

    should_stop: bool
    reason: StopReason | None = None
    message: str | None = None


GO_ON = StopDecision(should_stop=False)


class Optimizer(Protocol):
    """An algorithm that searches configurations.

    `propose` may be async: built-in optimizers await what the frame hands them (a model call, a computation over stored
    outcomes) and nothing else.
    """

    def initialize(self, context: RunContext) -> OptimizerState: ...

    def propose(
        self, state: OptimizerState, history: TrialHistory, max_candidates: int
    ) -> Sequence[CandidateProposal] | Awaitable[Sequence[CandidateProposal]]: ...

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState: ...

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision: ...
