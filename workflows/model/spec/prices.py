"""What models cost."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ratchet._frozen import SpecPart
from workflows.model.run.numbers import Cost


def _is_unsaid(value: object) -> bool:
    return value is None


def _is_half(value: object) -> bool:
    return value == 0.5


class Rates(SpecPart):
    """What a model costs per million tokens, for requests of a kind."""

    input: Cost
    """Per million tokens read."""
    output: Cost
    """Per million tokens written."""
    cached_input: Cost | None = None
    """Per million tokens read from the provider's cache. Default: the price of `input`."""
    # What was added later is left out of a dump where it is not said: what hashes prices knows specs that never heard of it.
    cache_write: Annotated[Cost | None, Field(exclude_if=_is_unsaid)] = None
    """Per million tokens read that the provider keeps in its cache. Default: the price of `input`."""

    def cost(self, read: int, written: int, *, cached: int = 0, kept: int = 0) -> float:
        """What a call costs that read and wrote so many tokens; of those read, some came from the cache, or were put there."""
        cached_price = self.input if self.cached_input is None else self.cached_input
        total = (read - cached - kept) * self.input + cached * cached_price + written * self.output
        if kept:
            total += kept * (self.input if self.cache_write is None else self.cache_write)
        return total / 1_000_000

    @property
    def dearest_input(self) -> float:
        """The most that a token read can cost."""
        return max(self.input, self.cached_input or 0.0, self.cache_write or 0.0)


class LongRates(Rates):
    """What longer requests cost, all of their tokens."""

    tokens: Annotated[int, Field(ge=1)]
    """Requests that read more than so many."""


class Price(Rates):
    """What a model costs per million tokens."""

    above: Annotated[LongRates | None, Field(exclude_if=_is_unsaid)] = None
    """What requests cost that read more than so many tokens: `{tokens: 200000, input: 6, output: 22.5}`. Default: the same."""

    batch: Annotated[float, Field(ge=0, le=1, exclude_if=_is_half)] = 0.5
    """What a call costs in a batch (`execution.mode: batch`), as a share of these prices. Most providers take half."""

    def for_request(self, read: int) -> Rates:
        """The rates of a request that reads so many tokens."""
        return self if self.above is None or read <= self.above.tokens else self.above

    @property
    def in_batches(self) -> Price:
        """The prices of a call in a batch."""
        above = None if self.above is None else self.above.model_copy(update=_times(self.above, self.batch))
        return self.model_copy(update={**_times(self, self.batch), "above": above})


def _times(rates: Rates, share: float) -> dict[str, float | None]:
    stated = rates.model_dump(include={"input", "output", "cached_input", "cache_write"})
    return {name: None if rate is None else rate * share for name, rate in stated.items()}
