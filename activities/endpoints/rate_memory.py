"""Where what endpoints teach is kept: in the store, for all workers and the next run, or in this process alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from activities.shards.outcome_batches import until_back
from store.write.limits.learned_rates import LearnedRates
from workflows.rules.learned_rate import CATCHING_UP, LONGEST_STEP, Endpoint, Learned, Throttle, after


class RateMemory(Protocol):
    """What is known of one endpoint, and who may call it when."""

    async def known(self) -> Learned | None:
        """What complaints have taught so far."""
        ...

    async def lease(self, known: Learned, calls: int, refused: int) -> tuple[float, Learned | None]:
        """Reserve so many starts at the rate that is known; in how many seconds the first may be, and what is known by now.
        `refused` are calls let in since the last complaint that were refused since the last lease."""
        ...

    async def throttled(self, throttle: Throttle) -> Learned:
        """Learn from a complaint; from several about the same mistake once."""
        ...


class SharedRateMemory:
    """Those of one endpoint in the store. A store that is away pauses calls; none fails."""

    def __init__(self, rates: LearnedRates, endpoint: Endpoint, is_away: Callable[[BaseException], bool]) -> None:
        self._rates = rates
        self._endpoint = endpoint
        self._is_away = is_away

    async def known(self) -> Learned | None:
        return await until_back(lambda: self._rates.known(self._endpoint), self._is_away)

    async def lease(self, known: Learned, calls: int, refused: int) -> tuple[float, Learned | None]:
        return await until_back(lambda: self._rates.lease(self._endpoint, known, calls, refused), self._is_away)

    async def throttled(self, throttle: Throttle) -> Learned:
        return await until_back(lambda: self._rates.throttled(self._endpoint, throttle), self._is_away)


@dataclass
class OwnRateMemory:
    """One process's own lessons, shared with nobody."""

    learned: Learned | None = None
    calls_until: float = 0.0
    leased_at: float = 0.0
    learned_at: float = 0.0

    async def known(self) -> Learned | None:
        return self.learned

    async def lease(self, known: Learned, calls: int, refused: int) -> tuple[float, Learned | None]:
        now = asyncio.get_running_loop().time()
        first = max(self.calls_until, now - CATCHING_UP)
        self.calls_until = first + calls / known.rate
        assert self.learned is not None
        self.learned = self.learned.used_by(calls - refused, self._used_since(now))
        self.leased_at = max(self.leased_at, now)
        return first - now, self.learned

    async def throttled(self, throttle: Throttle) -> Learned:
        now = asyncio.get_running_loop().time()
        known = self.learned and self.learned.used_by(-throttle.refused, self._used_since(now))
        opens = max(now, self.leased_at, now + throttle.retry_after)
        ahead, closed = max(0.0, self.calls_until - now), opens - max(now, self.leased_at)
        self.learned = after(known, throttle, ahead=ahead, age=now - self.learned_at, closed=closed)
        if known is None or self.learned.revision != known.revision:
            self.learned_at = now
        self.calls_until, self.leased_at = max(self.calls_until, opens), opens
        return self.learned

    def _used_since(self, now: float) -> float:
        """A gate that is closed is not used."""
        return min(max(0.0, now - self.leased_at), LONGEST_STEP)
