"""The run's outbox: decided rounds that wait for the next write to the store.

A record travels with the start of the next trial, so that a round costs the run's history nothing; the ledger is flushed on its
own before anything that may take long. Committing a record twice changes nothing, so a record is dropped only when its
commit is certain.
"""

from __future__ import annotations

import asyncio

from temporalio import workflow

from workflows.contracts import Bookkeeping
from workflows.model.run.clock import StoodStill
from workflows.model.run.contract import LedgerInput
from workflows.model.run.rounds import RoundRecord
from workflows.policies import LOCAL_STORE
from workflows.run.state import RunBook


class Ledger:
    """Round records between their decision and their commit."""

    def __init__(self, book: RunBook) -> None:
        self._book = book
        self._writing = asyncio.Lock()
        self._written: LedgerInput | None = None
        self.waiting: tuple[RoundRecord, ...] = ()

    def add(self, record: RoundRecord) -> None:
        """Queue a decided round."""
        self.waiting = (*self.waiting, record)

    def settle(self, committed: tuple[RoundRecord, ...]) -> None:
        """Forget what is certainly in the store."""
        self.waiting = tuple(record for record in self.waiting if record not in committed)

    async def flush(self, stood_still: StoodStill | None = None) -> None:
        """Write what waits, and the run's status and limits when they changed."""
        if self._book.prepared is None:
            return
        async with self._writing:
            ledger = LedgerInput(
                run_id=self._book.run_id,
                records=self.waiting,
                status=self._book.status,
                limits={
                    "concurrent_samples": self._book.concurrent_samples,
                    "concurrent_trials": self._book.concurrent_trials,
                    "priority": self._book.priority,
                    "rate_limits": {name: limit.model_dump() for name, limit in self._book.rate_limits.items()},
                    "stop": self._book.limits.stop.model_dump(mode="json"),
                    "budget": self._book.limits.budget.model_dump(mode="json"),
                },
                budget=self._book.limits.budget if self._book.budget_adjusted else None,
            )
            if ledger == self._written:
                return
            told = ledger.model_copy(update={"stood_still": stood_still or self._book.stood_still})
            clock = await workflow.execute_local_activity_method(Bookkeeping.commit_ledger, told, **LOCAL_STORE)
            self._book.note_unserved(clock.unserved if clock else None)
            self.settle(ledger.records)
            self._written = ledger.model_copy(update={"records": ()})
