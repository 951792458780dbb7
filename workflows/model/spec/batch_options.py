"""Batches of a provider: how large they are, and how a trial waits for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, model_validator

from ratchet._frozen import Payload, SpecPart
from workflows.model.spec.durations import PositiveDuration

MOST_REQUESTS = 50_000
"""In one batch of OpenAI's."""

TIME_OF_A_BATCH = timedelta(hours=24)
"""That most providers take at most, by their own words."""


class BatchOptions(SpecPart):
    """How samples are handed to a provider in batches."""

    requests: Annotated[int, Field(ge=1, le=MOST_REQUESTS)] = MOST_REQUESTS
    """Requests of one batch at most. A trial with more has several, side by side; so has one whose requests are larger than the
    200 MB that a provider takes at once."""
    poll: PositiveDuration = timedelta(seconds=30)
    """How long after it was sent a batch is first looked at; later more and more rarely."""
    longest_poll: PositiveDuration = timedelta(minutes=20)
    """The longest pause between two such looks."""

    judges: bool = True
    """Whether models that score (`kind: rubric`) are asked in batches, too: for half the price, once the answers are there,
    which may take another day. Else they are asked at once."""

    @model_validator(mode="after")
    def _polls_grow(self) -> BatchOptions:
        if self.longest_poll < self.poll:
            raise ValueError(f"longest_poll is shorter than poll ({self.poll.total_seconds():g} s); make it at least as long")
        return self


class BatchRules(Payload):
    """What a trial knows of its batches."""

    requests: int = MOST_REQUESTS
    poll: timedelta
    longest_poll: timedelta
    rest_directly: bool = False
    """What a batch leaves without an answer is asked at once, and so is everything where no time is left for a batch."""
    lasts: timedelta = TIME_OF_A_BATCH
    """What a batch takes at most, by its provider's own words."""
    judges: tuple[str, ...] = ()
    """Models that score and are asked in batches, by their fields in the spec."""
