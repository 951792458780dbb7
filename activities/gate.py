"""What may run at once and how fast: an adaptive gate per endpoint, and a limit per run, both for the whole worker process.

A gate costs nothing until its endpoint first says "too many requests". From then on it spaces out calls: the rate grows
a little with every success and shrinks when the endpoint complains, and a Retry-After closes the gate for everybody.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

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


SECONDS_BETWEEN_LOOKS = 2.0
"""How often a run's limit is looked up, since an operator may change it."""


class ClosedForLong(Exception):
    """The endpoint asked for more patience than a waiting activity should have."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the endpoint asks to wait {seconds:.0f} s")
        self.seconds = seconds


class Gate:
    """The pace of calls to one endpoint, shared by everything in this process that calls it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rate: float | None = None
        self._known_good = math.inf
        self._most_per_second = 0.0
        self._turn = asyncio.Lock()
        self._next_start = 0.0
        self._closed_until = 0.0
        self._decreased_at = float("-inf")
        self._successes: deque[float] = deque(maxlen=4096)

    @property
    def rate(self) -> float | None:
        """Calls per second; None as long as the endpoint never complained."""
        return self._rate

    async def enter(self) -> None:
        """Wait until a call may start."""
        if self._rate is None:
            return
        # One at a time: who waits behind goes by the rate of then, not by the one of now.
        async with self._turn:
            while True:
                now = self._clock()
                closed_for = self._closed_until - now
                if closed_for > LONGEST_WAIT:
                    raise ClosedForLong(closed_for)
                start = max(self._next_start, self._closed_until, now - LARGEST_BURST)
                if start <= now:
                    self._next_start = start + 1.0 / self._rate
                    return
                await asyncio.sleep(start - now)

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

    def __init__(self) -> None:
        self._gates: dict[tuple[str, str], Gate] = {}

    def at(self, base_url: str, model: str) -> Gate:
        return self._gates.setdefault((base_url, model), Gate())


class Limit:
    """How many calls of one run are in flight in this process; can be changed while calls wait. First come, first served."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def resize(self, capacity: int) -> None:
        """Take effect at once when growing, and as calls end when shrinking."""
        self._capacity = max(1, capacity)
        self._admit()

    async def acquire(self) -> None:
        if self._in_flight < self._capacity and not self._waiting:
            self._in_flight += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # admitted and cancelled in the same moment: pass the place on
            raise

    def release(self) -> None:
        self._in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._in_flight < self._capacity:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)


class RunLimits:
    """One limit per run, over all its shards in this process; forgotten with the run's last shard."""

    def __init__(
        self, capacity_of: Callable[[str], Awaitable[int | None]] | None = None, *, interval: float = SECONDS_BETWEEN_LOOKS
    ) -> None:
        """`capacity_of` tells what a run's limit is now, if it was changed while the run is going on."""
        self._capacity_of = capacity_of
        self._interval = interval
        self._limits: dict[str, Limit] = {}
        self._users: dict[str, int] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def of(self, run_id: str, capacity: int) -> AsyncIterator[Limit]:
        """The run's limit while a shard of it is worked on; the first shard's capacity counts until it is changed."""
        if run_id not in self._limits:
            self._limits[run_id] = Limit(capacity)
            if self._capacity_of is not None:
                self._watchers[run_id] = asyncio.create_task(self._watch(run_id, self._capacity_of))
        self._users[run_id] = self._users.get(run_id, 0) + 1
        try:
            yield self._limits[run_id]
        finally:
            self._users[run_id] -= 1
            if not self._users[run_id]:
                del self._users[run_id], self._limits[run_id]
                watcher = self._watchers.pop(run_id, None)
                if watcher is not None:
                    watcher.cancel()

    async def _watch(self, run_id: str, capacity_of: Callable[[str], Awaitable[int | None]]) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                capacity = await capacity_of(run_id)
            except Exception:  # noqa: S112 (the store is away: the limit stays what it was)
                continue
            if capacity is not None:
                self._limits[run_id].resize(capacity)
