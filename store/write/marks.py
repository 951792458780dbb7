"""Pins, tags and notes: what people say of runs, candidates and answers. No decision reads them."""

# ruff: noqa: S608 (only constants are put into statements; every value is a parameter)

from __future__ import annotations

from typing import Final

from store.connection import Connection, Database
from store.encoding import optional_text, storable_text
from store.encrypted_contents import contents_of
from store.events import lock_run
from store.read.marks import MARK, Mark, MarkedThing, MarkKind
from store.schema import StoreError

MOST_OF_A_RUN: Final = 10_000


class NothingToMark(StoreError):
    """There is no such candidate, or no such answer."""


class TooManyMarks(StoreError):
    """The run has as many as are kept."""


class NotYours(StoreError):
    """Somebody else wrote the note."""


class Marks:
    """Marks of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, thing: MarkedThing, kind: MarkKind, text: str, who: str, through: str) -> Mark:
        """Mark a run, a candidate or an answer. A pin or a tag that is there stays as it is; every note is one more."""
        async with self._database.transaction() as connection:
            await lock_run(connection, thing.run_id)
            await _refuse_unknown(connection, thing)
            if await connection.fetchval("SELECT count(*) FROM marks WHERE run_id = $1", thing.run_id) >= MOST_OF_A_RUN:
                raise TooManyMarks(f"{thing.run_id} has {MOST_OF_A_RUN:,} marks already; remove some")
            stored = contents_of(connection).text(text) if kind == "note" else storable_text(text)
            place = thing.run_id, optional_text(thing.candidate_id), optional_text(thing.item_id), thing.replicate
            row = await connection.fetchrow(
                "INSERT INTO marks (run_id, candidate_id, item_id, replicate, kind, text, who, through)"
                f" VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING {MARK}",
                *place,
                kind,
                stored,
                storable_text(who),
                through,
            )
            row = row or await connection.fetchrow(
                f"SELECT {MARK} FROM marks WHERE run_id = $1 AND candidate_id IS NOT DISTINCT FROM $2"
                " AND item_id IS NOT DISTINCT FROM $3 AND replicate IS NOT DISTINCT FROM $4 AND kind = $5 AND text = $6",
                *place,
                kind,
                stored,
            )
            assert row is not None
            return Mark(**row)

    async def change(self, run_id: str, number: int, text: str, author: str | None) -> Mark | None:
        """Write a note anew, that of an author alone where one is given; None when there is no such note."""
        async with self._database.transaction() as connection:
            found = await _note(connection, run_id, number, author)
            if found is None:
                return None
            row = await connection.fetchrow(
                f"UPDATE marks SET text = $2, changed_at = now() WHERE number = $1 AND kind = 'note' RETURNING {MARK}",
                number,
                contents_of(connection).text(text),
            )
            return None if row is None else Mark(**row)

    async def remove(self, run_id: str, number: int, author: str | None) -> bool:
        """Remove a mark, of notes only those of an author where one is given; whether there was one."""
        async with self._database.transaction() as connection:
            if await _note(connection, run_id, number, author) is None:
                return False
            return bool(await connection.fetchval("DELETE FROM marks WHERE number = $1 RETURNING true", number))


async def _note(connection: Connection, run_id: str, number: int, author: str | None) -> Mark | None:
    row = await connection.fetchrow(
        f"SELECT {MARK} FROM marks WHERE run_id = $1 AND number = $2 FOR UPDATE",
        run_id,
        number,
    )
    if row is None:
        return None
    if row["kind"] == "note" and author is not None and row["who"] != storable_text(author):
        raise NotYours(f"{row['who']} wrote this note; only he and admins change it")
    return Mark(**row)


async def _refuse_unknown(connection: Connection, thing: MarkedThing) -> None:
    if thing.candidate_id is not None and not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM candidates WHERE run_id = $1 AND candidate_id = $2)",
        thing.run_id,
        storable_text(thing.candidate_id),
    ):
        raise NothingToMark(f"candidate_id: {thing.run_id} has no candidate {thing.candidate_id!r}")
    if thing.item_id is not None and not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM samples JOIN runs USING (dataset_id) WHERE run_id = $1 AND item_id = $2)",
        thing.run_id,
        storable_text(thing.item_id),
    ):
        raise NothingToMark(f"item_id: {thing.run_id} has no sample {thing.item_id!r}")
