"""What a trial and its activities say to each other about batches of a provider: keys and counts, never a request."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from ratchet._frozen import Payload
from workflows.model.spec.batch_options import BatchRules
from workflows.model.trial import ShardInput, ShardResult


class BatchInput(Payload):
    """Asks for a batch of what lacks an answer in a part of a trial."""

    part: ShardInput
    rules: BatchRules
    judge: str | None = None
    """The judge that is asked for a verdict on what is answered; None where the target is asked."""
    again: bool = False
    """It was asked for before: what is there and has no score was scored then, as far as it could be."""


class SubmittedBatch(Payload):
    """A batch that is at its provider, or why there is none."""

    batch_key: str | None = None
    """None when nothing of the part had to be sent."""
    provider_id: str | None = None
    requests: int = 0
    until: int
    """One past the last pair that this covers; the rest is for another batch."""
    is_short: bool = False
    """The budget covered no more: the rest has to wait until this batch is over."""
    has_no_batches: bool = False
    """Batches cannot be made of this model, and the rules let what is left be asked at once."""
    result: ShardResult = Field(default_factory=ShardResult)
    """What was found, what could not even be asked, and what was given up."""


class BatchKey(Payload):
    """A batch, and the part of a trial that it belongs to."""

    part: ShardInput
    batch_key: str
    judges: tuple[str, ...] = ()
    """Models that score, and have the answers of batches later."""


class BatchLook(Payload):
    """Asks whether a batch is over, as often as it takes."""

    batch: BatchKey
    poll: timedelta
    longest_poll: timedelta


class BatchEnd(Payload):
    """How a batch ended, in the words of its provider; `lost` where that does not know it any more."""

    said: str


class TakenBatch(Payload):
    """What became of a batch."""

    result: ShardResult
    again: int = 0
    """Requests that got no answer."""


class OverBatches(Payload):
    """Batches that were cancelled, and whose results can be taken."""

    batch_keys: tuple[str, ...] = ()
