"""What happened to a run, the newest first: for whoever looks back."""

from __future__ import annotations

from store.connection import Connection
from store.encoding import from_json
from store.read.rows import EventRow


async def newest_events(
    connection: Connection, run_id: str, *, before: int | None, with_trials: bool, limit: int
) -> tuple[EventRow, ...]:
    """Events older than `before`, or the newest there are; beginnings and ends of trials only where they are wanted."""
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
