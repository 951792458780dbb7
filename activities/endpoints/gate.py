"""The way to an endpoint: the limits that were set for it, and what its complaints have taught.

An endpoint that nobody knows is approached: starts are spaced out, the less the more calls it has answered, so that few are on
their way when it first says "too many requests". From then on starts are leased, from all workers together, at a rate that is
learned, and a Retry-After closes the gate for everybody.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from activities.concurrency.in_flight_limits import Caller, CallPlaces
from activities.concurrency.shared_rate_limits import SharedLimit, SharedLimits
from activities.endpoints.rate_memory import OwnRateMemory, RateMemory
from activities.observation.worker_meters import UNSEEN, WorkerMeters
from activities.targets.faults import Throttled
from workflows.model.spec.limits import RateLimit
from workflows.rules.learned_rate import Learned, Throttle

LONGEST_WAIT = 30.0
"""Seconds. An endpoint that is closed for longer gets its slot back: the activity ends and is retried after the delay."""

FIRST_APPROACH = 100.0
"""Calls per second to an endpoint that has not answered any; each answer allows one more."""

LARGEST_BURST = 0.05
"""Seconds of calls that may start together, so that pacing does not depend on the precision of timers."""


CALLS_REMEMBERED = 50
"""The last so many calls decide."""

SLOW_CALLS_FORGIVEN = 5
"""So many slow ones say nothing yet."""

LARGEST_SHARE_OF_SLOW_CALLS = 0.4


class ClosedForLong(Exception):
    """The endpoint asked for more patience than a waiting activity should have."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the endpoint asks to wait {seconds:.0f} s")
        self.seconds = seconds


class SlowCalls:
    """Count the calls to one endpoint that took too long: only where they are the exception is one worth making again."""

    def __init__(self) -> None:
        self._slow: deque[bool] = deque(maxlen=CALLS_REMEMBERED)

    def in_time(self) -> None:
        self._slow.append(False)

    def too_long(self) -> None:
        self._slow.append(True)

    @property
    def is_exception(self) -> bool:
        return sum(self._slow) <= SLOW_CALLS_FORGIVEN + LARGEST_SHARE_OF_SLOW_CALLS * len(self._slow)


class Gate:
    """The way to one endpoint, shared by everything in this process that calls it."""

    def __init__(
        self,
        rate_memory: RateMemory | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        limits: Callable[[Caller], Sequence[SharedLimit]] = lambda _: (),
        waited: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`limits` are those that a caller's calls are under, whatever the endpoint itself says. `waited` is told for how many
        seconds a call stood here."""
        self._waited = waited
        self._rate_memory = rate_memory or OwnRateMemory()
        self._clock = clock
        self._limits = limits
        self.slow_calls = SlowCalls()
        self._looking: asyncio.Task[None] | None = None
        self._learned: Learned | None = None
        self._pace = SharedLimit(_limit_of(FIRST_APPROACH), self._lease)
        self._starts: deque[float] = deque(maxlen=4096)
        self._answered = 0
        self._refused = 0
        self._next_start = 0.0
        self._closed_until = 0.0
        self._complaining: asyncio.Task[None] | None = None

    @property
    def rate(self) -> float | None:
        """Calls per second over all workers; None as long as the endpoint never complained."""
        return None if self._learned is None else self._learned.rate

    @asynccontextmanager
    async def call(self, caller: Caller) -> AsyncIterator[None]:
        """Wait until a call may start; how it ends is what the gate learns from."""
        limits = [shared.in_flight for shared in self._limits(caller) if shared.limit.concurrent_requests is not None]
        room = CallPlaces(limits, caller)
        since = self._clock()
        await room.acquire()
        try:
            await self.enter(caller)
            self._waited(self._clock() - since)
            revision = self._revision
            yield
            self._answered += 1
        except Throttled as throttle:
            self._throttled(throttle.retry_after or 0.0, revision)
            raise
        finally:
            room.release()

    async def enter(self, caller: Caller) -> None:
        """Wait until a call may start: for the limits first, so that a closed gate has the last word."""
        for shared in self._limits(caller):
            await shared.enter(caller)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        if not self._looking.done():
            await asyncio.shield(self._looking)
        self._refuse_a_long_wait()
        if not self._may_start_at_once():
            await self._pace.enter(caller)
            while not self._is_open:
                await self._pace.enter(caller)
        self._starts.append(self._clock())

    def took(self, caller: Caller, tokens: int) -> None:
        """A call was answered, with so many tokens."""
        for shared in self._limits(caller):
            shared.took(tokens)

    # -- when ---------------------------------------------------------------------------------------------------------------

    def _may_start_at_once(self) -> bool:
        if self._learned is not None or self._pace.at_work or not self._is_open or self._next_start > self._clock():
            return False
        self._approach(1)
        return True

    def _approach(self, calls: int) -> float:
        """When the first of so many calls to an endpoint that never complained may start, in seconds from now."""
        now = self._clock()
        rate = FIRST_APPROACH + self._answered
        first = max(self._next_start, now - LARGEST_BURST)
        self._next_start = first + calls / rate
        self._pace.change(_limit_of(rate))
        return first - now

    @property
    def _is_open(self) -> bool:
        return self._complaining is None and self._closed_until <= self._clock()

    def _refuse_a_long_wait(self) -> None:
        closed_for = self._closed_until - self._clock()
        if closed_for > LONGEST_WAIT:
            raise ClosedForLong(closed_for)

    async def _until_open(self) -> None:
        while not self._is_open:
            self._refuse_a_long_wait()
            if self._complaining is not None:
                await asyncio.wait({self._complaining})
            else:
                await asyncio.sleep(self._closed_until - self._clock())

    async def _lease(self, _limit: RateLimit, calls: int, _tokens: float, _owed: float) -> float:
        """When the first of so many calls may start, in seconds from now."""
        await self._until_open()
        if self._learned is None:
            return self._approach(calls)
        refused, self._refused = self._refused, 0
        wait, self._learned = await self._rate_memory.lease(self._learned, calls, refused)
        if self._learned is not None:
            self._pace.change(_limit_of(self._learned.rate))
        if wait > LONGEST_WAIT:
            raise ClosedForLong(wait)
        return wait

    # -- learning -----------------------------------------------------------------------------------------------------------

    @property
    def _revision(self) -> int:
        return 0 if self._learned is None else self._learned.revision

    async def _look(self) -> None:
        self._learned = await self._rate_memory.known()

    def _throttled(self, retry_after: float, revision: int) -> None:
        self._closed_until = max(self._closed_until, self._clock() + retry_after)
        if revision > 0:
            self._refused += 1
        if revision < self._revision or self._complaining is not None:
            return  # about a rate that is lowered already
        self._complaining = asyncio.create_task(self._complain(retry_after))
        self._complaining.add_done_callback(self._understood)

    def _understood(self, _throttle: asyncio.Task[None]) -> None:
        """Whatever became of the complaint: callers that wait for its end go on."""
        self._complaining = None

    async def _complain(self, retry_after: float) -> None:
        """Nobody is let in until it is known what the complaint means."""
        since = self._clock() - 1.0
        took = sum(1 for start in self._starts if start > since)
        withdrawn = self._pace.withdraw()
        refused, self._refused = self._refused + (withdrawn if self._revision else 0), 0
        throttle = Throttle(self._revision, took, retry_after, refused)
        self._learned = await self._rate_memory.throttled(throttle)
        self._pace.change(_limit_of(self._learned.rate))


def _limit_of(rate: float) -> RateLimit:
    return RateLimit(requests_per_minute=min(1e7, rate * 60.0))


class Gates:
    """One gate per endpoint and model."""

    def __init__(
        self,
        limits: SharedLimits | None = None,
        rate_memory: Callable[[str, str], RateMemory] | None = None,
        meters: WorkerMeters = UNSEEN,
    ) -> None:
        """`rate_memory` are those of a base URL and a model, kept where other workers find them."""
        self._meters = meters
        self.limits = limits or SharedLimits()
        self._rate_memory = rate_memory or (lambda _url, _model: OwnRateMemory())
        self._gates: dict[tuple[str, str], Gate] = {}

    def known(self, base_url: str, model: str) -> Gate | None:
        """The gate, if anybody has come to it."""
        return self._gates.get((base_url, model))

    def at(self, base_url: str, model: str) -> Gate:
        gate = self._gates.get((base_url, model))
        if gate is None:
            rate_memory, label = self._rate_memory(base_url, model), self._meters.model_label(model)
            gate = self._gates[base_url, model] = Gate(
                rate_memory,
                limits=lambda caller: self.limits.of(base_url, model, caller),
                waited=lambda seconds: self._meters.gate_wait.record(seconds, label),
            )
        return gate
