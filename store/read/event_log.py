"""What happened to runs: in order, for those who follow; the newest first, for whoever looks back."""

from __future__ import annotations

from store.connection import Database
from store.encoding import decoded, from_json
from store.read.rows.event_rows import EventRow, WireEvent

_EVENTS = (
    "SELECT id, event_key AS key, type, payload, created_at FROM events WHERE run_id = $1 AND id > $2 ORDER BY id LIMIT $3"
)


class EventReader:
    """The events of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(self, run_id: str, *, after: int = 0, limit: int = 500) -> list[EventRow]:
        """What happened after an event id, in order."""
        async with self._database.connection() as connection:
            found = await connection.fetch(_EVENTS, run_id, after, limit)
        return [EventRow(**decoded(row, "payload"), run_id=run_id) for row in found]

    async def wire(self, run_id: str, *, after: int = 0, limit: int = 500) -> list[WireEvent]:
        """The same for those who only pass it on."""
        async with self._database.connection() as connection:
            found = await connection.fetch(_EVENTS, run_id, after, limit)
        return [WireEvent(*row) for row in found]

    async def newest(
        self, run_id: str, *, before: int | None = None, with_trials: bool = False, limit: int = 100
    ) -> tuple[EventRow, ...]:
        """Events older than `before`, or the newest there are; beginnings and ends of trials only where they are wanted."""
        async with self._database.connection() as connection:
            found = await connection.fetch(
                """
                SELECT id, event_key AS key, type, payload, created_at FROM events
                WHERE run_id = $1 AND ($2::bigint IS NULL OR id < $2) AND ($3 OR type <> 'trial_added_or_updated')
                ORDER BY id DESC LIMIT $4
                """,
                run_id,
                before,
                with_trials,
                limit,
            )
            return tuple(EventRow(**{**dict(row), "run_id": run_id, "payload": from_json(row["payload"])}) for row in found)

    async def last_id(self, run_id: str) -> int:
        """The newest event of a run; 0 when it has none."""
        async with self._database.connection() as connection:
            newest = await connection.fetchval("SELECT max(id) FROM events WHERE run_id = $1", run_id)
            return int(newest or 0)
