"""The audit log as it is read: who did what, to which run or prompt, when."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from ratchet._frozen import Payload
from store.connection import Database

DeedEnding = Literal["done", "refused", "unknown"]


class AuditEntry(Payload):
    """One thing that somebody did, or asked for."""

    number: int
    at: datetime
    who: str
    """The token's name; `local` at the command line."""
    through: str
    """How that is known."""
    role: str | None = None
    """The token's, over HTTP."""
    team: str | None = None
    """The token's; nothing for admins and for what is done locally."""
    action: str
    run_id: str | None = None
    prompt: str | None = None
    subject: str | None = None
    """What else it was done to: the name of a token, the id of a dataset."""
    outcome: DeedEnding | None = None
    """None while it is under way, and where whoever did it died. `unknown`: it was asked for, and may yet take effect."""
    ended_at: datetime | None = None


class AuditReader:
    """The audit log, the newest entries first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self, *, run_id: str | None = None, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Entries of one run, or of everything."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT * FROM audit_log WHERE ($1::text IS NULL OR run_id = $1) AND ($2::bigint IS NULL OR number < $2)"
                " ORDER BY number DESC LIMIT $3",
                run_id,
                before,
                limit,
            )
            return [AuditEntry(**row) for row in rows]
