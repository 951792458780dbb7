"""What a run came to: its result, who ended it, and how its winner was confirmed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from ratchet.optimizer import StopReason
from workflows.model.activities.search_plans import Importances
from workflows.model.run.compression_report import Compression
from workflows.model.run.rounds import Counts, LimitsInForce, RunStatus, Spend
from workflows.model.spec.durations import Elapsed
from workflows.model.spec.factors import Configuration
from workflows.model.spec.judgement import Judged, Noise, Plan
from workflows.model.spec.release import ReleaseOutcome

How = Literal["test_split", "fresh_answers", "cross_fitting"]
"""How a winner is confirmed."""


class Confirmation(Payload):
    """Baseline and winner where the choice of the winner did not look: the figures that a run stands for."""

    how: How = "test_split"
    """`test_split`: both answer samples that were held back. `fresh_answers`: both answer the samples of the search once more.
    `cross_fitting`: the winner is chosen again on some of the samples and compared on the others, in many divisions of them."""
    holds: bool = False
    """The winner has the verdict that the rule of the spec asks for. What does not hold is not the run's result."""
    baseline_score: float | None = None
    winner_score: float | None = None
    judged: Judged | None = None
    """The verdict on the winner with its figures: gain, interval, p-value and number of samples. None when the baseline
    itself is the best, or something was not measured in full."""
    promised: float | None = None
    """The gain that the search saw: of the best of many, and so optimistic."""
    optimism: float | None = None
    """How much more it promised than was confirmed."""
    explanation: str = ""
    """One sentence with the numbers."""
    refused: str | None = None
    """Why it was not measured."""
    readers: int = 0
    """How many other runs were confirmed on the same samples before."""
    searched: int = 0
    """How many of these samples other runs have searched on."""


class FactorChange(Payload):
    """One factor of the best configuration that differs from the baseline."""

    before: JsonValue
    after: JsonValue


EndedBy = Literal["rules", "policy", "optimizer", "proposer", "person", "failure"]


class Ending(Payload):
    """Who ended the run, and what that was decided on: `ratchet replay` decides it again."""

    by: EndedBy
    """`rules`: the stop rules and budgets of the spec. `policy`: the spec's own. `proposer`: it failed, or the budget did not
    cover it."""
    decided_at: datetime
    paused_for: Elapsed = timedelta(0)
    limits: LimitsInForce | None = None
    """What the stop rules were measured against, where that is not what the spec says."""


class Unproven(Payload):
    """The best candidate of a search whose gain was not confirmed: the run's result is the baseline."""

    candidate_id: str
    config_hash: str
    configuration: Configuration
    score: float
    """In the search, which chose it for this."""
    changes: dict[str, FactorChange]
    why: str
    """What is missing."""


class OptimizationResult(Payload):
    """The outcome of a run. The whole history is in the store, under `optimization_id`.

    What it calls the best is what the run stands for: the winner if its gain holds, else the baseline.
    """

    optimization_id: str
    status: RunStatus
    stop_reason: StopReason
    message: str = ""
    baseline_score: float | None = None
    best_score: float | None = None
    """In the search. What is claimed of it is in the confirmation."""
    best_candidate_id: str | None = None
    best_config_hash: str | None = None
    best_configuration: Configuration = Field(default_factory=dict)
    changes: dict[str, FactorChange] = Field(default_factory=dict)
    """The difference to the baseline, factor by factor."""
    confirmation: Confirmation | None = None
    """Of the search's winner, be it the result or unproven."""
    unproven: Unproven | None = None
    """The search's winner, where it is not the result."""
    compression: Compression | None = None
    """What became shorter, when the run compressed."""
    importances: Importances | None = None
    """Which factors mattered, when the run searched structured ones."""
    release: ReleaseOutcome | None = None
    """What the run did about releasing its winner; `ratchet status ID` shows what became of it since."""
    plan: Plan | None = None
    """What the run could find out: the smallest gain, and how surely."""
    noise: Noise | None = None
    """How much the baseline's scores vary, where that was measured first."""
    first_look: tuple[str, ...] = ()
    """What is probably wrong with the measurement, as the baseline's answers tell it: one sentence each."""
    rounds: int = 0
    counts: Counts = Field(default_factory=Counts)
    spend: Spend = Field(default_factory=Spend)
    lost: Spend = Field(default_factory=Spend)
    """Calls without an answer that may have been paid for, under a budget at the most that they can have taken, without
    one by their number."""
    reused: int = 0
    """Answers that were copied from other runs instead of paid for."""
    evaluation_suite_id: str | None = None
    ending: Ending | None = None
    """Who ended it, and on what grounds."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    history: str = ""
    """Where the whole history is: `ratchet report ID` reads it."""
