"""How much may be in flight in this process: for a run, each of its trials, and the worker itself; and whose turn it is.

When several runs wait for the same thing, each gets turns in proportion to its priority. A run of the next higher priority gets
twice as many turns. Every run that waits gets some, so nobody waits for ever; a run that does not wait leaves its turns to the
others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from workflows.model.spec.limits import DEFAULT_PRIORITY, AdjustedLimits, RateLimit

SECONDS_BETWEEN_LOOKS = 2.0
"""How often a run's limits are looked up, since they may be adjusted while it goes on."""


@dataclass(slots=True, eq=False)
class Caller:
    """The run that calls are made for. Its priority and its limits may change while it goes on."""

    run_id: str = ""
    priority: int = DEFAULT_PRIORITY
    rate_limits: Mapping[str, RateLimit] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        return int(2 ** (self.priority - 1))


NOBODY = Caller()


class FairQueue:
    """Those who wait, by run. A run's turns are spaced by the inverse of its weight, and the next in time comes first."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._callers: dict[str, Caller] = {}
        self._next_turn: dict[str, float] = {}
        self._time = 0.0

    def __len__(self) -> int:
        return sum(len(line) for line in self._waiting.values())

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def weight(self) -> int:
        """Of all runs that wait, together."""
        return sum(self._callers[run_id].weight for run_id in self._waiting)

    def add(self, caller: Caller) -> asyncio.Future[None]:
        """A place in the queue, whose turn has come when it has a result."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if caller.run_id not in self._waiting:
            self._waiting[caller.run_id] = deque()
            # Who comes back too early to have earned another turn is not served as if it were new.
            self._next_turn[caller.run_id] = max(self._next_turn.get(caller.run_id, 0.0), self._time)
        self._callers[caller.run_id] = caller
        self._waiting[caller.run_id].append(turn)
        return turn

    def admit(self) -> bool:
        """Give the next one its turn; whether anybody was there to take it."""
        while self._waiting:
            run_id = min(self._waiting, key=self._next_turn.__getitem__)
            turn = self._waiting[run_id].popleft()
            taken = not turn.done()
            if taken:
                self._time = self._next_turn[run_id]
                self._next_turn[run_id] += 1.0 / self._callers[run_id].weight
                turn.set_result(None)
            if not self._waiting[run_id]:
                self._leave(run_id)
            if taken:
                return True
        return False

    def fail(self, error: Exception) -> None:
        """Tell everybody who waits that there will be no turn."""
        for line in self._waiting.values():
            for turn in line:
                if not turn.done():
                    turn.set_exception(error)
        self._waiting.clear()
        self._callers.clear()

    def _leave(self, run_id: str) -> None:
        del self._waiting[run_id], self._callers[run_id]
        self._next_turn = {name: turn for name, turn in self._next_turn.items() if name in self._waiting or turn > self._time}


class Limit:
    """How much may be in flight in this process; can be changed while calls wait. Runs take turns by their priority."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._in_flight = 0
        self._waiting = FairQueue()

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def resize(self, capacity: int) -> None:
        """Take effect at once when growing, and as calls end when shrinking."""
        if capacity != self._capacity:
            self._capacity = max(1, capacity)
            self._admit()

    async def acquire(self, caller: Caller) -> None:
        if self._in_flight < self._capacity and not self._waiting:
            self._in_flight += 1
            return
        turn = self._waiting.add(caller)
        self._admit()  # those before it may have been cancelled
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
        while self._in_flight < self._capacity and self._waiting.admit():
            self._in_flight += 1


class CallPlaces:
    """Several limits that hold at once. Taken from the narrowest to the widest, so that none is held while waiting for one
    that others wait for in another order."""

    def __init__(self, limits: Sequence[Limit], caller: Caller) -> None:
        self._limits = limits
        self.caller = caller

    async def acquire(self) -> None:
        taken: list[Limit] = []
        try:
            for limit in self._limits:
                await limit.acquire(self.caller)
                taken.append(limit)
        except asyncio.CancelledError:
            for limit in taken:
                limit.release()
            raise

    def release(self) -> None:
        for limit in self._limits:
            limit.release()


@dataclass
class RunAtWork:
    """A run that this process has shards of."""

    caller: Caller
    limit: Limit
    trials: dict[str, Limit] = field(default_factory=dict)
    shards: list[str] = field(default_factory=list)
    """The trial of every shard at work."""
    watcher: asyncio.Task[None] | None = None
    budgeted: bool = False

    def adjust(self, to: AdjustedLimits) -> None:
        self.budgeted = to.budgeted
        if to.concurrent_samples is not None:
            self.limit.resize(to.concurrent_samples)
        if to.priority is not None:
            self.caller.priority = to.priority
        if to.rate_limits is not None:
            self.caller.rate_limits = to.rate_limits


class RunLimits:
    """The limits of the runs that this process works for; forgotten with a run's last shard."""

    def __init__(
        self,
        adjusted: Callable[[str], Awaitable[AdjustedLimits]] | None = None,
        *,
        worker: int | None = None,
        interval: float = SECONDS_BETWEEN_LOOKS,
        forget: Callable[[str], None] | None = None,
    ) -> None:
        """`adjusted` tells a run's limits of now; `worker` is what may be in flight over all runs."""
        self._adjusted = adjusted
        self._worker = Limit(worker) if worker is not None else None
        self._interval = interval
        self._forget = forget
        self._runs: dict[str, RunAtWork] = {}

    @asynccontextmanager
    async def of(
        self, caller: Caller, capacity: int, *, trial_id: str = "", trial_capacity: int | None = None
    ) -> AsyncIterator[CallPlaces]:
        """The room for a shard of a run; what the run's first shard says counts until it is adjusted."""
        run = self._runs.get(caller.run_id)
        if run is None:
            run = self._runs[caller.run_id] = RunAtWork(caller, Limit(capacity))
            if self._adjusted is not None:
                run.watcher = asyncio.create_task(self._watch(run, self._adjusted))
        run.shards.append(trial_id)
        narrow = [run.trials.setdefault(trial_id, Limit(trial_capacity))] if trial_capacity is not None else []
        wide = [self._worker] if self._worker is not None else []
        try:
            yield CallPlaces([*narrow, run.limit, *wide], run.caller)
        finally:
            self._leave(run, trial_id)

    def budgeted(self, run_id: str) -> bool:
        """Whether a run that is at work has a budget of samples, tokens or cost, as far as is known here."""
        run = self._runs.get(run_id)
        return run is not None and run.budgeted

    def _leave(self, run: RunAtWork, trial_id: str) -> None:
        run.shards.remove(trial_id)
        if trial_id not in run.shards:
            run.trials.pop(trial_id, None)
        if not run.shards:
            del self._runs[run.caller.run_id]
            if run.watcher is not None:
                run.watcher.cancel()
            if self._forget is not None:
                self._forget(run.caller.run_id)

    async def _watch(self, run: RunAtWork, adjusted: Callable[[str], Awaitable[AdjustedLimits]]) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                run.adjust(await adjusted(run.caller.run_id))
            except Exception:  # noqa: S112 (the store is away: the limits stay what they were)
                continue
