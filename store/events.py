"""Events: what happened to a run, stored in the transaction that made it happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from store.connection import Connection
from store.encrypted_contents import contents_of
from store.schema import StoreError

EVENTS_CHANNEL = "ratchet_events"
"""Notified with the run's id whenever a transaction that wrote events for it commits."""

TERMINATED = "terminated"
"""Ended from outside: the one status that the run itself never writes."""

TERMINAL = frozenset({"completed", "failed", "cancelled", TERMINATED})

EventType = Literal[
    "run_status_changed",
    "progress_changed",
    "trial_added_or_updated",
    "best_candidate_changed",
    "run_finished",
    "release_changed",
    "approval_due",
]


@dataclass(frozen=True, slots=True)
class Event:
    key: str
    """Names the happening itself: announcing it again changes nothing."""
    type: EventType
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LockedRun:
    """A run whose row is locked until the transaction ends."""

    run_id: str
    starts: int
    status: str
    status_changes: int
    is_finished: bool = False
    """Its result is stored: what it counted up to then stands."""


class RunUnknown(StoreError):
    """The run is not in the store; it was never prepared, or it was deleted."""


async def lock_run(connection: Connection, run_id: str) -> LockedRun:
    """Lock the run's row. Event ids are drawn under this lock, so that within a run they become visible in order."""
    row = await connection.fetchrow(
        "SELECT starts, status, status_changes, result IS NOT NULL FROM runs WHERE run_id = $1 FOR NO KEY UPDATE", run_id
    )
    if row is None:
        raise RunUnknown(f"run {run_id!r} is not in the store: it was deleted, or never prepared")
    return LockedRun(run_id, *row)


async def announce(connection: Connection, run: LockedRun, events: Sequence[Event]) -> None:
    """Store events and notify whoever listens, once the transaction commits."""
    if not events:
        return
    contents = contents_of(connection)
    await connection.execute(
        """
        WITH written AS (
            INSERT INTO events (run_id, event_key, type, payload)
            SELECT $1, key, type, payload
            FROM unnest($2::text[], $3::text[], $4::jsonb[]) WITH ORDINALITY AS event (key, type, payload, place)
            ORDER BY place
            ON CONFLICT (run_id, event_key) DO NOTHING
            RETURNING 1
        )
        SELECT pg_notify($5, $1) WHERE EXISTS (SELECT FROM written)
        """,
        run.run_id,
        [f"{run.starts}/{event.key}" for event in events],
        [event.type for event in events],
        [contents.json(event.payload, _readable(event)) for event in events],
        EVENTS_CHANNEL,
    )


def _readable(event: Event) -> dict[str, Any]:
    """Of an event, what queries look at."""
    return {name: event.payload[name] for name in ("candidate_id", "round") if name in event.payload}


def trial_key(purpose: str, candidate_id: str, part: str) -> str:
    """Names a trial in the run's events."""
    return f"trial/{purpose}/{candidate_id}{f'/{part}' if part else ''}"


def status_event(run: LockedRun, status: str, **more: Any) -> Event:
    """The run takes a new status. Its key is the number of the change, since a run may pause and resume repeatedly."""
    payload = {"status": status, "before": run.status, **more}
    return Event(f"status/{run.status_changes + 1}", "run_status_changed", payload)
