"""Pins, tags and notes as clients read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from ratchet._frozen import Payload
from store.connection import Connection, Database

MarkKind = Literal["pin", "tag", "note"]
MARK = "number, run_id, candidate_id, item_id, replicate, kind, text, who, through, at, changed_at"


class MarkedThing(Payload):
    """What a mark is on: a run, one of its candidates, or one answer of that."""

    run_id: str
    candidate_id: str | None = None
    item_id: str | None = None
    """The sample of an answer."""
    replicate: int | None = None
    """Which answer to the sample, from 0."""


class Mark(MarkedThing):
    """What somebody said of it."""

    number: int
    kind: MarkKind
    text: str = ""
    """The tag or the note."""
    who: str
    through: str
    """How that name was established."""
    at: datetime
    changed_at: datetime | None = None


class RunMarks(Payload):
    """The marks of a run itself, for lists."""

    pinned: bool = False
    tags: tuple[str, ...] = ()
    notes: int = 0


class MarkReader:
    """Marks, in the order in which they were made."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, run_id: str, *, offset: int = 0, limit: int = 1000) -> tuple[int, list[Mark]]:
        """Those of a run, of its candidates and their answers; with how many there are."""
        async with self._database.snapshot() as connection:
            total = await connection.fetchval("SELECT count(*) FROM marks WHERE run_id = $1", run_id)
            return total, await marks_of_run(connection, run_id, offset=offset, limit=limit)


async def marks_of_run(connection: Connection, run_id: str, *, offset: int = 0, limit: int | None = None) -> list[Mark]:
    """The marks of a run, of its candidates and their answers."""
    rows = await connection.fetch(
        f"SELECT {MARK} FROM marks WHERE run_id = $1 ORDER BY number OFFSET $2 LIMIT $3",  # noqa: S608 (a constant)
        run_id,
        offset,
        limit,
    )
    return [Mark(**row) for row in rows]


async def marks_of_runs(connection: Connection, run_ids: Sequence[str]) -> Mapping[str, RunMarks]:
    """What is said of runs as a whole, for those of which something is."""
    rows = await connection.fetch(
        "SELECT run_id, bool_or(kind = 'pin') AS pinned, count(*) FILTER (WHERE kind = 'note') AS notes,"
        " coalesce(array_agg(text ORDER BY number) FILTER (WHERE kind = 'tag'), '{}') AS tags"
        " FROM marks WHERE run_id = ANY($1::text[]) AND candidate_id IS NULL GROUP BY run_id",
        list(run_ids),
    )
    return {row["run_id"]: RunMarks(pinned=row["pinned"], tags=tuple(row["tags"]), notes=row["notes"]) for row in rows}
