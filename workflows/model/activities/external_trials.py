"""What trials that run elsewhere hand to their activities, and get back."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from workflows.model.run.amounts import Amount, Resource
from workflows.model.run.team_rest import TeamRest
from workflows.model.trial import ShardInput

ExperimentStatus = Literal["pending", "running", "completed", "failed", "cancelled", "timeout", "unknown", "unreachable"]
"""What a runner says of an experiment; `unknown` when it says that there is none, `unreachable` when it says nothing."""


class CallsSettlement(Payload):
    """What calls of strangers took of what was set aside for them."""

    holders: tuple[str, ...]
    """Under which names it was set aside."""
    answered: int = 0
    """Calls that were answered; one call is one sample."""
    unanswered: int = 0
    """Calls that may have been paid for, and said nothing."""
    calls: int = 0
    """For how many it was set aside, where calls are no samples: those of judges."""
    tokens: int = 0
    cost: float = 0.0
    most_tokens_per_sample: int = 0
    most_cost_per_sample: float = 0.0

    @property
    def dearest(self) -> Amount | None:
        """The most that one call took."""
        return Amount(tokens=self.most_tokens_per_sample, cost=self.most_cost_per_sample) if self.answered else None


class RetriesInput(Payload):
    """Asks whether calls that failed may be made again."""

    shard: ShardInput
    holder: str
    calls: int


class ReservedRetries(Payload):
    """Whether they may."""

    exhausted: Resource | None = None
    """The budget that does not cover them."""
    team_rest: TeamRest | None = None
    """What was left of the team's month, where it was that budget."""


class CallsInput(Payload):
    """Asks for what is missing of a shard, in a form that goes to somebody else's activity."""

    shard: ShardInput


class Calls(Payload):
    """What a call says: the same for all samples, and sample by sample."""

    common: dict[str, JsonValue] = Field(default_factory=dict)
    """configuration, context, execution_params"""
    samples: tuple[dict[str, JsonValue], ...] = ()
    """Those without an answer, so many as fit into one message."""
    until: int
    """One past the last pair of the shard that this covers; the rest is asked for separately."""
    found: int = 0
    kept: int = 0
    """Answers that are there and only have to be scored."""
    holder: str | None = None
    """Under which name budget was set aside for these calls, when there is a budget."""
    exhausted: Resource | None = None
    """The budget that does not cover a single one of them."""
    team_rest: TeamRest | None = None
    """What was left of the team's month, where it was that budget."""


class GivenAnswer(Payload):
    """What came back for one (sample, replicate) pair: an answer, or why there is none."""

    sample_id: str
    replicate: int
    answer: JsonValue = None
    fault: str | None = None
    """The candidate's fault: the worst score."""
    missing: str | None = None
    """Nobody's fault: no outcome at all."""
    kind: str = "no answer"
    """The class of the error, by which errors are counted."""


class AnswersInput(Payload):
    """Answers to score and to commit."""

    shard: ShardInput
    answers: tuple[GivenAnswer, ...] = ()
    kept: bool = False
    """Score the shard's answers that were kept without a score."""
    settlement: CallsSettlement | None = None
    """What the calls took, when budget was set aside for them."""


class ExperimentInput(Payload):
    """Asks for an experiment over what is missing of a trial."""

    trial: ShardInput
    """All pairs of the trial."""
    workflow_id: str
    """To whom the runner may signal that it is done."""
    signal: str


class Triggered(Payload):
    """The experiment of a trial."""

    experiment_id: str | None = None
    """None when there is nothing to run, because every answer is there already."""
    kept: int = 0
    """So many of those only have to be scored."""
    exhausted: Resource | None = None
    """The budget that does not cover the experiment, which therefore was not begun."""
    team_rest: TeamRest | None = None
    """What was left of the team's month, where it was that budget."""


class ExperimentKey(Payload):
    """An experiment, and the trial that it belongs to."""

    trial: ShardInput
    experiment_id: str


class ExperimentState(Payload):
    """Where an experiment stands."""

    status: ExperimentStatus
    error: str | None = None
