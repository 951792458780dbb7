"""Which runs had to do with a prompt: those that began with it, and those that were released to it."""

from __future__ import annotations

from datetime import datetime

from ratchet._frozen import Payload
from store.connection import Database
from store.encoding import storable_text


class PromptRun(Payload):
    """A run that touched a prompt."""

    optimization_id: str
    name: str
    status: str
    started_at: datetime
    began_with_it: bool
    released: bool
    """Whether a release of it was asked for, whatever became of that."""


class PromptRunReader:
    """Runs by the prompts that they touched."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_prompt(self, prompt: str, limit: int = 100) -> list[PromptRun]:
        """The newest first. Where specs are encrypted, those alone that a release was asked for."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                WITH touched AS (
                    SELECT run_id, true AS began, false AS released FROM runs WHERE spec #>> '{prompt,name}' = $1
                    UNION ALL SELECT run_id, false, false FROM runs WHERE spec #>> '{release,prompt}' = $1
                    UNION ALL SELECT run_id, false, true FROM releases WHERE prompt = $1 AND run_id IS NOT NULL
                )
                SELECT r.run_id AS optimization_id, r.name, r.status, r.started_at, bool_or(t.began) AS began_with_it,
                       bool_or(t.released) AS released
                FROM touched t JOIN runs r USING (run_id)
                GROUP BY r.run_id ORDER BY r.started_at DESC, r.run_id LIMIT $2
                """,
                storable_text(prompt),
                limit,
            )
            return [PromptRun(**row) for row in rows]

    async def waiting(self) -> dict[str, int]:
        """How many releases of each prompt wait for somebody's word."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT prompt, count(*) AS waiting FROM releases WHERE status = 'pending' GROUP BY prompt"
            )
            return {row["prompt"]: row["waiting"] for row in rows}
