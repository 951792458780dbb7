"""The run's outbox: decided rounds that wait for the next write to the store.

A record travels with the start of the next trial, so that a round costs the run's history nothing; the outbox is flushed on its
own before anything that may take long. Committing a record twice changes nothing, so a record is dropped only when its
commit is certain.
"""

from __future__ import annotations

import asyncio

from temporalio import workflow

from workflows.contracts import Bookkeeping
from workflows.model.run.clock import StoodStill
from workflows.model.run.contract import CommitRounds
from workflows.model.run.rounds import RoundRecord
from workflows.policies import LOCAL_STORE
from workflows.run.state import RunState


class RoundOutbox:
    """Round records between their decision and their commit."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._writing = asyncio.Lock()
        self._written: CommitRounds | None = None
        self.waiting: tuple[RoundRecord, ...] = ()

    def add(self, record: RoundRecord) -> None:
        """Queue a decided round."""
        self.waiting = (*self.waiting, record)

    def settle(self, committed: tuple[RoundRecord, ...]) -> None:
        """Forget what is certainly in the store."""
        self.waiting = tuple(record for record in self.waiting if record not in committed)

    async def flush(self, stood_still: StoodStill | None = None) -> None:
        """Write what waits, and the run's status and limits when they changed."""
        if self._state.prepared is None:
            return
        async with self._writing:
            entry = CommitRounds(
                run_id=self._state.run_id,
                records=self.waiting,
                status=self._state.status,
                limits={
                    "concurrent_samples": self._state.concurrent_samples,
                    "concurrent_trials": self._state.concurrent_trials,
                    "priority": self._state.priority,
                    "rate_limits": {name: limit.model_dump() for name, limit in self._state.rate_limits.items()},
                    "stop": self._state.limits.stop.model_dump(mode="json"),
                    "budget": self._state.limits.budget.model_dump(mode="json"),
                },
                budget=self._state.limits.budget if self._state.budget_adjusted else None,
            )
            if entry == self._written:
                return
            told = entry.model_copy(update={"stood_still": stood_still or self._state.time.stood_still})
            clock = await workflow.execute_local_activity_method(Bookkeeping.commit_rounds, told, **LOCAL_STORE)
            self._state.time.note_unserved(clock.unserved if clock else None)
            self.settle(entry.records)
            self._written = entry.model_copy(update={"records": ()})
