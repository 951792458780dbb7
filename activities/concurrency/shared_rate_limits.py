"""Requests and tokens per minute that several workers share, with the store as the arbiter.

A worker leases a small batch of starts at a time: one short statement moves the time of the next free start on by the batch,
and the calls are spread over the time in between. At a limit that is used up, every worker waits behind the batches of the
others, and the batches' sizes follow the priorities of the runs that wait. A store that is away pauses calls; none fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from activities.concurrency.in_flight_limits import Caller, FairQueue, Limit
from activities.shards.outcome_batches import until_back
from store.write.limits.rate_limits import RateLimits
from workflows.model.spec.limits import DEFAULT_PRIORITY, RateLimit

BATCH_SECONDS = 0.04
"""Of calls at a limit's full rate, that a run of ordinary priority leases at once."""

ORDINARY = Caller(priority=DEFAULT_PRIORITY).weight

LONGEST_BATCH = 5.0
"""Seconds that a batch lasts at most, at limits of few calls. Longer ones would follow priorities more closely, but a worker
that dies takes its batch along."""

AHEAD = 0.03
"""Seconds before the last leased start that the next batch is asked for, so that the store's answer delays no call."""

FIRST_GUESS = 500.0
"""Tokens that a call is expected to take while nothing is known."""

LEARNING = 0.1
"""How much the newest call counts in the average of tokens that calls take."""

MOST_IN_FLIGHT = 100_000
"""Where a limit on calls in flight was lifted while calls waited at it."""

Name = tuple[str, str]
"""The run a limit belongs to, empty for the operator's, and the model or URL it is about."""


@dataclass(slots=True)
class Expected:
    """What the next call will take, judged by those before it, and what those took more than was expected."""

    tokens: float = FIRST_GUESS
    known: bool = False
    owed: float = 0.0

    def settle(self, took: int) -> None:
        self.owed += took - self.tokens
        self.tokens = self.tokens * (1 - LEARNING) + took * LEARNING if self.known else float(took)
        self.known = True


class SharedLimit:
    """One limit, as this process shares in it."""

    def __init__(self, limit: RateLimit, lease: Callable[[RateLimit, int, float, float], Awaitable[float]]) -> None:
        self.limit = limit
        self.in_flight = Limit(limit.concurrent_requests or MOST_IN_FLIGHT)
        self._lease = lease
        self._waiting = FairQueue()
        self._leasing: asyncio.Task[None] | None = None
        self._starts: list[tuple[float, asyncio.Handle]] = []
        self._expected = Expected()

    @property
    def at_work(self) -> bool:
        """Whether calls wait, or the last batch is not over yet."""
        return self._leasing is not None

    def change(self, limit: RateLimit) -> None:
        """Calls that wait already are let in by the new limit."""
        if limit is not self.limit:
            self.limit = limit
            self.in_flight.resize(limit.concurrent_requests or MOST_IN_FLIGHT)

    async def enter(self, caller: Caller) -> None:
        """Wait until a call of this run may start."""
        if self.limit.requests_per_minute is None and self.limit.tokens_per_minute is None:
            return
        turn = self._waiting.add(caller)
        if self._leasing is None:
            self._leasing = asyncio.create_task(self._lease_while_wanted())
        await turn

    def withdraw(self) -> int:
        """Let nobody in on the starts that are leased already; how many those are."""
        now = asyncio.get_running_loop().time()
        waiting = [handle for start, handle in self._starts if start > now and not handle.cancelled()]
        for handle in waiting:
            handle.cancel()
        return len(waiting)

    def took(self, tokens: int) -> None:
        """A call that was let in is over."""
        if self.limit.tokens_per_minute is not None:
            self._expected.settle(tokens)

    async def _lease_while_wanted(self) -> None:
        try:
            await asyncio.sleep(0)  # others that start in the same moment share the batch
            while self._waiting:
                await self._lease_a_batch()
        except Exception as error:
            self._waiting.fail(error)
        finally:
            self._leasing = None

    async def _lease_a_batch(self) -> None:
        loop = asyncio.get_running_loop()
        expected, limit = self._expected, self.limit
        spacing = self._seconds_per_call()
        wanted = self._waiting.weight * max(1, round(BATCH_SECONDS / spacing / ORDINARY))
        calls = max(1, min(len(self._waiting), wanted, int(LONGEST_BATCH / spacing)))
        owed, expected.owed = expected.owed, 0.0
        first = await self._lease(limit, calls, calls * expected.tokens, owed) + loop.time()
        self._starts.clear()
        for place in range(calls):
            start = first + place * spacing
            if start <= loop.time():
                self._waiting.admit()
            else:
                self._starts.append((start, loop.call_at(start, self._waiting.admit)))
        await asyncio.sleep(max(0.0, first + calls * spacing - AHEAD - loop.time()))

    def _seconds_per_call(self) -> float:
        requests, tokens = self.limit.requests_per_minute, self.limit.tokens_per_minute
        by_requests = 60.0 / requests if requests else 0.0
        by_tokens = self._expected.tokens * 60.0 / tokens if tokens else 0.0
        return max(by_requests, by_tokens, 1e-6)


class SharedLimits:
    """Every limit that calls of this process are under: the operator's, and those of the runs it works for."""

    def __init__(
        self,
        rates: RateLimits | None = None,
        is_away: Callable[[BaseException], bool] = lambda _: False,
        operator: Mapping[str, RateLimit] | None = None,
    ) -> None:
        self._rates = rates
        self._is_away = is_away
        self._operator = {_plain(name): limit for name, limit in (operator or {}).items()}
        self._shared: dict[Name, SharedLimit] = {}

    def of(self, base_url: str, model: str, caller: Caller) -> list[SharedLimit]:
        """The limits of one call: its run's first, then everybody's."""
        if not self._operator and not caller.rate_limits:
            return []
        found = []
        for run_id, limits in ((caller.run_id, caller.rate_limits), ("", self._operator)):
            for name in dict.fromkeys((_plain(model), _plain(base_url))):
                limit = limits.get(name) or limits.get(f"{name}/")
                if limit is not None:
                    found.append(self._at((run_id, name), limit))
        return found

    def forget(self, run_id: str) -> None:
        """The process works for this run no longer."""
        self._shared = {name: shared for name, shared in self._shared.items() if name[0] != run_id}

    def _at(self, name: Name, limit: RateLimit) -> SharedLimit:
        shared = self._shared.get(name)
        if shared is None:
            shared = self._shared[name] = SharedLimit(limit, lambda *wanted: self._leased(name, *wanted))
        shared.change(limit)
        return shared

    async def _leased(self, name: Name, limit: RateLimit, calls: int, tokens: float, owed: float) -> float:
        rates = self._rates
        if rates is None:
            raise RuntimeError("rate limits need a store to share them by")
        return await until_back(lambda: rates.lease_starts(name, limit, calls, tokens, owed), self._is_away)


def _plain(name: str) -> str:
    return name.rstrip("/")
