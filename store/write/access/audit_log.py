"""The audit log: an entry is added before anything is done, so that nothing is done that is not in it."""

from __future__ import annotations

from dataclasses import dataclass

from store.connection import Database
from store.encoding import optional_text, storable_text
from store.read.access.audit_log import DeedEnding


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody is about to do."""

    who: str
    through: str
    action: str
    role: str | None = None
    run_id: str | None = None
    prompt: str | None = None
    subject: str | None = None
    team: str | None = None


class AuditLog:
    """Entries are only added; each is told once how it ended."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, deed: Deed, outcome: DeedEnding | None = None) -> int:
        """Keep what is about to be done, or what was refused already; the entry's number."""
        async with self._database.connection() as connection:
            number: int = await connection.fetchval(
                "INSERT INTO audit_log (who, through, role, action, run_id, prompt, subject, outcome, ended_at, team)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text, CASE WHEN $8::text IS NOT NULL THEN now() END, $9)"
                " RETURNING number",
                storable_text(deed.who),
                storable_text(deed.through),
                deed.role,
                deed.action,
                optional_text(deed.run_id),
                optional_text(deed.prompt),
                optional_text(deed.subject),
                outcome,
                deed.team,
            )
            return number

    async def end(self, number: int, outcome: DeedEnding, *, run_id: str | None = None, prompt: str | None = None) -> None:
        """Say how it ended, and which run or prompt it was about where that was not known before."""
        async with self._database.connection() as connection:
            await connection.execute(
                "UPDATE audit_log SET outcome = $2, ended_at = now(), run_id = coalesce(run_id, $3),"
                " prompt = coalesce(prompt, $4) WHERE number = $1 AND outcome IS NULL",
                number,
                outcome,
                optional_text(run_id),
                optional_text(prompt),
            )
