"""What a run, each of its trials, and the worker itself may have in flight in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from activities.concurrency.fair_queue import Caller, calling_for
from activities.concurrency.in_flight_limits import Limit, Room
from workflows.model.spec.limits import AdjustedLimits

SECONDS_BETWEEN_LOOKS = 2.0
"""How often a run's limits are looked up, since they may be adjusted while it goes on."""


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
    ) -> AsyncIterator[Room]:
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
            with calling_for(run.caller):
                yield Room([*narrow, run.limit, *wide])
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
