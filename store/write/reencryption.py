"""Stored contents brought to the newest key, those in clear among them, so that an older key can be retired.

A batch is a transaction of its own, and takes only rows that nobody else has locked: it waits for nobody, so no writer can
meet it in a deadlock. Whatever ends it, what was done stays done, and another one does the rest.
"""

# ruff: noqa: S608 (names of tables and columns are constants of `content_columns`; every value is a parameter)

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ratchet._content_tokens import MARK, TEXT_MARK, ContentLocked
from store.connection import Connection, Database
from store.encrypted_contents import Contents, contents_of
from store.schema import StoreError
from store.write.content_columns import CONTENT_TABLES, ContentColumn, ContentTable

PAGES_AT_ONCE: Final = 512
"""Of a table; rows are looked for among so many at a time."""
ROWS_AT_ONCE: Final = 200
FILES_AT_ONCE: Final = 4
MOST_PASSES: Final = 5
SECONDS_A_WRITER_MAY_TAKE: Final = 120.0

_KEY: Final = "([A-Za-z0-9][A-Za-z0-9_.-]{0,63}):"
_LONGEST_HEAD: Final = 100
_PLAIN: Final = "''"


@dataclass(frozen=True, slots=True)
class StoredContents:
    """How many contents of a column are encrypted with a key; None: in clear."""

    table: str
    column: str
    key_id: str | None
    count: int


@dataclass
class Reencrypted:
    """What came of it."""

    key_id: str
    """The key that everything has that was reached."""
    rows: Counter[str] = field(default_factory=Counter)
    """How many rows were written, by table."""
    unreadable: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why contents stay as they are, by table and column: their key is missing, or they were changed."""


class Reencryption:
    """Brings contents to the first key of a database that was opened with keys."""

    def __init__(
        self,
        database: Database,
        *,
        rows_at_once: int = ROWS_AT_ONCE,
        most_seconds_for_writers: float = SECONDS_A_WRITER_MAY_TAKE,
    ) -> None:
        if database.keys is None:
            raise StoreError("there is no key to encrypt with")
        self._database = database
        self._first = database.keys.first
        self._rows_at_once = rows_at_once
        self._most_seconds_for_writers = most_seconds_for_writers

    async def count(self) -> list[StoredContents]:
        """Count all contents by table, column and key. Everything is read for that."""
        found: list[StoredContents] = []
        async with self._database.connection() as connection:
            for table in CONTENT_TABLES:
                keys = ", ".join(f"('{column.name}', {_key_of(column)})" for column in table.columns)
                rows = await connection.fetch(
                    f"SELECT content.of, content.under, count(*) AS count FROM {table.name},"
                    f" LATERAL (VALUES {keys}) AS content (of, under)"
                    f" WHERE {table.rows} AND content.under IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2",
                    timeout=float("inf"),
                )
                found += [StoredContents(table.name, row["of"], row["under"] or None, row["count"]) for row in rows]
        return found

    async def carry_out(self, tell: Callable[[str, int], None] = lambda table, rows: None) -> Reencrypted:
        """Go through all tables until nothing is left to do: meanwhile answers may have been copied that were not done yet.

        `tell` hears after each batch which table it was of, and how many rows were written.
        """
        done = Reencrypted(self._first)
        for _ in range(MOST_PASSES):
            before = done.rows.total()
            await self._until_writers_ended()
            done.unreadable.clear()
            for table in CONTENT_TABLES:
                await self._go_through(table, done, tell)
            if done.rows.total() == before:
                break
        return done

    async def retire(self, key_id: str) -> bool:
        """Let processes serve without a key that nothing stored needs any more; whether it was known.

        Raise StoreError where something needs it, or where it is the key that encrypts.
        """
        if key_id == self._first:
            raise StoreError(f"key {key_id!r} is the one that encrypts; put another one in front first")
        await self._until_writers_ended()
        needed = sum(one.count for one in await self.count() if one.key_id == key_id)
        if needed:
            raise StoreError(f"{needed:,} stored contents are encrypted with key {key_id!r}; `ratchet reencrypt` changes that")
        async with self._database.connection() as connection:
            return bool(await connection.fetchval("DELETE FROM encryption_keys WHERE key_id = $1 RETURNING true", key_id))

    async def _until_writers_ended(self) -> None:
        """Wait for transactions that write at this moment: what they add could not be seen yet."""
        async with self._database.connection() as connection:
            newest = await connection.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
            until = time.monotonic() + self._most_seconds_for_writers
            while newest > await connection.fetchval("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"):
                if time.monotonic() > until:  # none of ours lasts so long: it is of another database, or of a person
                    return
                await asyncio.sleep(0.1)

    async def _go_through(self, table: ContentTable, done: Reencrypted, tell: Callable[[str, int], None]) -> None:
        async with self._database.connection() as connection:
            pages = await connection.fetchval(
                "SELECT pg_relation_size($1::regclass) / current_setting('block_size')::int", table.name
            )
        for page in range(0, pages, PAGES_AT_ONCE):
            place: tuple[int, int] | None = page, 0
            while place is not None:
                place, written = await self._write_some(table, place, page + PAGES_AT_ONCE, done)
                if written:
                    done.rows[table.name] += written
                    tell(table.name, written)

    async def _write_some(
        self, table: ContentTable, place: tuple[int, int], until: int, done: Reencrypted
    ) -> tuple[tuple[int, int] | None, int]:
        """Write one batch anew; where the next one begins, None after the last, and how many rows were written."""
        most = FILES_AT_ONCE if table.name == "files" else self._rows_at_once
        keys = [f"({_key_of(column)}) <> '{self._first}'" for column in table.columns]
        raw = ", ".join(f"{_raw(column)} AS {column.name}" for column in table.columns)
        async with self._database.transaction() as connection:
            rows = await connection.fetch(
                f"SELECT ctid AS place, {raw} FROM {table.name} WHERE ctid > $1 AND ctid < $2"
                f" AND {table.rows} AND ({' OR '.join(keys)}) ORDER BY ctid LIMIT {most} FOR NO KEY UPDATE SKIP LOCKED",
                place,
                (until, 0),
                timeout=float("inf"),
            )
            written = await self._write(connection, table, rows, done)
        return (None if len(rows) < most else max(row["place"] for row in rows)), written

    async def _write(self, connection: Connection, table: ContentTable, rows: list[Any], done: Reencrypted) -> int:
        contents, written = contents_of(connection), 0
        changes: dict[tuple[str, ...], list[tuple[Any, list[Any]]]] = {}
        for row in rows:
            new: dict[str, Any] = {}
            for column in table.columns:
                stored = row[column.name]
                if stored is None or _has_key(column, stored, self._first):
                    continue
                try:
                    new[column.name] = _renewed(contents, column, stored)
                except ContentLocked as error:
                    done.unreadable[table.name, column.name] = str(error)
            if new:
                changes.setdefault(tuple(new), []).append((row["place"], list(new.values())))
        forms = {column.name: column.form for column in table.columns}
        for names, changed in changes.items():
            given = ", ".join(f"${place}::{forms[name]}[]" for place, name in enumerate(names, start=2))
            await connection.execute(
                f"UPDATE {table.name} t SET {', '.join(f'{name} = given.{name}' for name in names)}"
                f" FROM unnest($1::tid[], {given}) AS given (place, {', '.join(names)}) WHERE t.ctid = given.place",
                [place for place, _ in changed],
                *([values[n] for _, values in changed] for n in range(len(names))),
            )
            written += len(changed)
        return written


def _key_of(column: ContentColumn) -> str:
    """SQL for the id of the key that a content is encrypted with: empty in clear, NULL where there is no content."""
    name = column.name
    match column.form:
        case "text":
            head = f"substring(left({name}, {_LONGEST_HEAD}) FROM '^\\$encrypted:{_KEY}')"
            return f"CASE WHEN {name} <> '' THEN coalesce({head}, {_PLAIN}) END"
        case "json":
            head = f'substring(left({name}::text, {_LONGEST_HEAD}) FROM \'^\\{{"\\$encrypted":"{_KEY}\')'
        case "jsonb":
            head = f"substring(left({name} ->> '{MARK}', {_LONGEST_HEAD}) FROM '^{_KEY}')"
        case "bytea":
            shown = f"encode(substring({name} FROM 1 FOR {_LONGEST_HEAD}), 'escape')"
            head = f"substring({shown} FROM '^\\$encrypted:{_KEY}')"
    return f"CASE WHEN {name} IS NOT NULL THEN coalesce({head}, {_PLAIN}) END"


def _raw(column: ContentColumn) -> str:
    """SQL for a content as it is stored: bytes, which nothing decrypts on the way."""
    return column.name if column.form == "bytea" else f"convert_to({column.name}::text, 'UTF8')"


def _has_key(column: ContentColumn, stored: bytes, key_id: str) -> bool:
    if not stored and column.form == "text":
        return True  # nothing is as good as encrypted
    if column.form in ("text", "bytea"):
        return stored.startswith(f"{TEXT_MARK}{key_id}:".encode())
    if MARK.encode() not in stored:
        return False
    value = json.loads(stored)
    return isinstance(value, dict) and str(value.get(MARK)).startswith(f"{key_id}:")


def _renewed(contents: Contents, column: ContentColumn, stored: bytes) -> Any:
    """Return a content encrypted with the first key, whatever it was before."""
    if column.form == "bytea":
        return contents.file(contents.plain_file(stored))
    text = stored.decode()
    if column.form == "text":
        return contents.text(contents.plain_text(text))
    plain = contents.plain_json(text)
    return contents.json_text(plain, _readable(column, text, plain))


def _readable(column: ContentColumn, stored: str, plain: str) -> Mapping[str, Any] | None:
    """What stays readable: what stood beside the token, or what the writer of the column leaves readable."""
    if column.readable is None:
        return None
    if plain is not stored:
        return {name: value for name, value in json.loads(stored).items() if name != MARK}
    value = json.loads(plain)
    return column.readable(value) if isinstance(value, dict) else None
