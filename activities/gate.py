"""The way to an endpoint: the limits that were set for it, and an adaptive gate that learns from its complaints.

The gate costs nothing until its endpoint first says "too many requests". From then on it spaces out calls: the rate grows
a little with every success and shrinks when the endpoint complains, and a Retry-After closes the gate for everybody.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from activities.fair_queue import FairQueue, current_caller
from activities.in_flight import Room
from activities.limits import SharedLimit, SharedLimits
from activities.slowness import Slowness

LONGEST_WAIT = 30.0
"""Seconds. An endpoint that is closed for longer gets its slot back: the activity ends and is retried after the delay."""

DECREASE = 0.85
LEAST_SECONDS_BETWEEN_DECREASES = 1.0
SLOWEST_RATE = 0.5
FIRST_GUESS = 5.0
"""Calls per second after a complaint that comes before anything is known of the endpoint."""

ENOUGH_TO_JUDGE_BY = 20
"""Answers in a second from which the endpoint's rate can be told; fewer may just be a burst that it allows."""

GROWTH_PER_SECOND = 0.05
"""The additive increase in one second of successes, as a share of the most that the endpoint took in a second."""

HEADROOM = 1.2
"""How far a rate may be above that most when it is lowered."""

FORGETTING = 0.9
"""What is left of that most at every decrease, so that an endpoint that became slower is believed."""

LARGEST_BURST = 0.05
"""Seconds of calls that may start together, so that pacing does not depend on the precision of timers."""


class ClosedForLong(Exception):
    """The endpoint asked for more patience than a waiting activity should have."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the endpoint asks to wait {seconds:.0f} s")
        self.seconds = seconds


class Gate:
    """The way to one endpoint, shared by everything in this process that calls it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        limits: Callable[[], Sequence[SharedLimit]] = tuple,
    ) -> None:
        """`limits` are those the caller's calls are under, whatever the endpoint itself says."""
        self._clock = clock
        self._limits = limits
        self.slowness = Slowness()
        self._rate: float | None = None
        self._known_good = math.inf
        self._most_per_second = 0.0
        self._waiting = FairQueue()
        self._opening: asyncio.TimerHandle | None = None
        self._next_start = 0.0
        self._closed_until = 0.0
        self._decreased_at = float("-inf")
        self._successes: deque[float] = deque(maxlen=4096)

    @property
    def rate(self) -> float | None:
        """Calls per second; None as long as the endpoint never complained."""
        return self._rate

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Wait until a call may start; it is over at the end of the block."""
        room = Room([shared.in_flight for shared in self._limits() if shared.limit.concurrent_requests is not None])
        await room.acquire()
        try:
            await self.enter()
            yield
        finally:
            room.release()

    async def enter(self) -> None:
        """Wait until a call may start: for the limits first, so that a closed gate has the last word."""
        caller = current_caller()
        for shared in self._limits():
            await shared.enter(caller)
        if self._rate is None:
            return
        self._refuse_a_long_wait()
        turn = self._waiting.add(caller)
        if self._opening is None:
            self._admit()
        await turn

    def took(self, tokens: int) -> None:
        """A call was answered, with so many tokens."""
        for shared in self._limits():
            shared.took(tokens)

    def _admit(self) -> None:
        """Let in whose turn it is, and come back when the next one may start: by the rate of then, not by the one of now."""
        self._opening = None
        while self._waiting:
            now = self._clock()
            try:
                self._refuse_a_long_wait()
            except ClosedForLong as closed:
                return self._waiting.fail(closed)
            start = max(self._next_start, self._closed_until, now - LARGEST_BURST)
            if start > now:
                self._opening = asyncio.get_running_loop().call_later(start - now, self._admit)
                return None
            if self._waiting.admit():
                self._next_start = start + 1.0 / (self._rate or math.inf)
        return None

    def _refuse_a_long_wait(self) -> None:
        closed_for = self._closed_until - self._clock()
        if closed_for > LONGEST_WAIT:
            raise ClosedForLong(closed_for)

    def succeeded(self) -> None:
        """A call was answered: go a little faster. While nothing is known of the endpoint, a lot: double every second."""
        self._successes.append(self._clock())
        if self._rate is None:
            return
        if self._rate < self._known_good:
            self._rate += 1.0
        else:
            self._rate += max(SLOWEST_RATE, self._most_per_second * GROWTH_PER_SECOND) / self._rate

    def throttled(self, retry_after: float | None = None) -> None:
        """The endpoint said "too many": go slower, and wait if it says how long."""
        now = self._clock()
        if retry_after:
            self._closed_until = max(self._closed_until, now + retry_after)
        if now - self._decreased_at < LEAST_SECONDS_BETWEEN_DECREASES:
            return
        self._decreased_at = now
        took = float(sum(1 for moment in self._successes if moment > now - 1.0))
        self._most_per_second = max(took, self._most_per_second * FORGETTING)
        guessing = self._rate is None and took < ENOUGH_TO_JUDGE_BY
        # A rate that nobody used may have grown far beyond what the endpoint ever took; lowering that would change nothing.
        most = self._most_per_second * (1.0 if self._rate is None else HEADROOM)
        current = min(self._rate or math.inf, max(FIRST_GUESS, most))
        self._rate = max(SLOWEST_RATE, current * DECREASE)
        self._known_good = math.inf if guessing else self._rate


class Gates:
    """One gate per endpoint and model."""

    def __init__(self, limits: SharedLimits | None = None) -> None:
        self.limits = limits or SharedLimits()
        self._gates: dict[tuple[str, str], Gate] = {}

    def at(self, base_url: str, model: str) -> Gate:
        gate = self._gates.get((base_url, model))
        if gate is None:
            gate = self._gates[base_url, model] = Gate(limits=lambda: self.limits.of(base_url, model))
        return gate
