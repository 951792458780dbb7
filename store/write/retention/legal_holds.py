"""Legal holds: as long as one is in force, nothing of its run is removed, by no policy and by nobody."""

from __future__ import annotations

from dataclasses import dataclass

from store.connection import Connection, Database
from store.encoding import storable_text
from store.events import lock_run
from store.read.rows.run_rows import LegalHold
from store.read.sized_runs import held_words
from store.schema import StoreError


class HeldRun(StoreError):
    """The run is held: nothing of it may be removed."""


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """What somebody wants a run to be held for."""

    label: str
    by: str
    through: str
    """How that name was established."""
    reason: str = ""


class LegalHolds:
    """Legal holds on runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, run_id: str, asked: HoldRequest) -> LegalHold:
        """Hold a run. Doing it twice for the same label changes nothing; return the hold in force."""
        async with self._database.transaction() as connection:
            await lock_run(connection, run_id)
            await connection.execute(
                "INSERT INTO legal_holds (run_id, label, reason, set_by, through) VALUES ($1, $2, $3, $4, $5)"
                " ON CONFLICT (run_id, label) WHERE lifted_at IS NULL DO NOTHING",
                run_id,
                storable_text(asked.label),
                storable_text(asked.reason),
                storable_text(asked.by),
                asked.through,
            )
            held = await legal_holds_in_force(connection, run_id)
            return next(hold for hold in held if hold.label == storable_text(asked.label))

    async def lift(self, run_id: str, label: str, by: str) -> bool:
        """Lift a hold; whether there was one. That it was, stays on record."""
        async with self._database.transaction() as connection:
            await lock_run(connection, run_id)
            lifted = await connection.fetch(
                "UPDATE legal_holds SET lifted_by = $3, lifted_at = now()"
                " WHERE run_id = $1 AND label = $2 AND lifted_at IS NULL RETURNING number",
                run_id,
                storable_text(label),
                storable_text(by),
            )
            return bool(lifted)


async def legal_holds_in_force(connection: Connection, run_id: str) -> tuple[LegalHold, ...]:
    """Those of one run, the oldest first."""
    rows = await connection.fetch(
        "SELECT label, reason, set_by, through, set_at FROM legal_holds"
        " WHERE run_id = $1 AND lifted_at IS NULL ORDER BY number",
        run_id,
    )
    return tuple(LegalHold(**row) for row in rows)


async def refuse_held(connection: Connection, run_id: str) -> None:
    """Raise if a run is held; within a transaction that holds the lock of its row."""
    for hold in await legal_holds_in_force(connection, run_id):
        raise HeldRun(
            f"{run_id} is {held_words(hold.label, hold.set_by, hold.set_at)}, and nothing of it may be removed or overwritten; "
            f"`ratchet hold {run_id} --label {hold.label} --lift` lifts that"
        )
