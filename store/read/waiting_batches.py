"""Batches of a run that a provider has, and those that it lost: what people are told that a run waits for."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from ratchet._frozen import Payload
from store.connection import Database

MOST: Final = 100


class WaitingBatch(Payload):
    """A batch that is at its provider, or that its provider has lost."""

    candidate_id: str | None
    provider_id: str | None
    """None while it is being sent."""
    endpoint: str
    model: str
    state: Literal["meant", "sent", "ended", "lost"]
    said: str | None
    """Its status, in the provider's words, when it was last looked at."""
    requests: int
    done: int
    sent_at: datetime | None
    looked_at: datetime | None


class BatchReader:
    """Batches as people see them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def waiting(self, run_id: str) -> list[WaitingBatch]:
        """Those that are not over, and those that were lost; the oldest first."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT (SELECT min(t.candidate_id) FROM trials t WHERE t.run_id = b.run_id AND t.trial_id = b.trial_id)
                           AS candidate_id,
                       b.provider_id, b.endpoint, b.model, b.state, b.said, b.requests, b.finished + b.failed AS done,
                       b.sent_at, b.looked_at
                FROM batches b WHERE b.run_id = $1 AND b.state IN ('meant', 'sent', 'ended', 'lost')
                ORDER BY b.created_at, b.batch_key LIMIT $2
                """,
                run_id,
                MOST,
            )
        return [WaitingBatch(**row) for row in rows]
