"""The steps of `ratchet reencrypt`: which keys stored contents need, and how they are changed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from clients.commands.context import CommandError, Context, ExitCode
from clients.local_audit import audited
from clients.reports.formatting import counted
from clients.runs.service.servers import has_data, open_store, reach_store
from clients.settings import encryption_keys
from store.connection import Database
from store.schema import StoreError
from store.write.reencryption import Reencrypted, Reencryption, StoredContents

SECONDS_BETWEEN_NOTES: Final = 10.0


@asynccontextmanager
async def _database(context: Context) -> AsyncIterator[tuple[Database, str]]:
    """The store, and the id of the key that encrypts."""
    keys = encryption_keys()
    if keys is None:
        raise CommandError("no key is set; set RATCHET_ENCRYPTION_KEYS, or RATCHET_ENCRYPTION_KEYS_FILE, as workers have it")
    if not has_data(context.home):
        raise CommandError(f"there is no store in {context.home}: run something first, or name the servers")
    async with reach_store(context.home) as url:
        database = await open_store(url)
        try:
            yield database, keys.first
        finally:
            await database.close()


async def show_contents(context: Context) -> int:
    """Say how many contents each key has encrypted."""
    async with _database(context) as (database, first):
        found = await Reencryption(database).count()
    context.facts(_facts(first, found), "\n".join(_lines(first, found)))
    return ExitCode.DONE


async def reencrypt_contents(context: Context) -> int:
    """Bring everything to the first key, and say what could not be."""
    async with _database(context) as (database, first):
        reencryption = Reencryption(database)
        async with audited(database, "reencrypt", subject=first):
            done = await reencryption.carry_out(_Notes(context).tell)
            found = await reencryption.count()
    left = [one for one in found if one.key_id != first]
    facts = {
        **_facts(first, found),
        "changed_rows": dict(done.rows),
        "unreadable": [{"table": table, "column": column, "why": why} for (table, column), why in done.unreadable.items()],
    }
    context.facts(
        facts, "\n".join([f"{counted(done.rows.total(), 'row')} written anew.", *_lines(first, found), *_why(done, left)])
    )
    return ExitCode.FAILED if left else ExitCode.DONE


async def retire_key(context: Context, key_id: str) -> int:
    """Let processes serve without a key."""
    async with (
        _database(context) as (database, first),
        audited(database, "retire key", subject=key_id, refusals=(StoreError,)),
    ):
        try:
            known = await Reencryption(database).retire(key_id)
        except StoreError as error:
            raise CommandError(str(error)) from None
    told = "is retired: nothing stored needs it" if known else "is not known to this store; nothing stored needs it"
    backups = "Backups of before, and Temporal's histories as long as it keeps them, still need it."
    context.facts({"key": first, "retired": key_id, "was_known": known}, f"Key {key_id} {told}. {backups}")
    return ExitCode.DONE


class _Notes:
    """Tells now and then how far it is."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rows = 0
        self._told_at = time.monotonic()

    def tell(self, table: str, rows: int) -> None:
        self._rows += rows
        if time.monotonic() - self._told_at >= SECONDS_BETWEEN_NOTES:
            self._told_at = time.monotonic()
            self._context.note(f"ratchet: {counted(self._rows, 'row')} written anew, now in {table}")


def _facts(first: str, found: Sequence[StoredContents]) -> dict[str, Any]:
    return {
        "key": first,
        "contents": sum(one.count for one in found),
        "left": sum(one.count for one in found if one.key_id != first),
        "keys": [{"key": key_id, "contents": count} for key_id, count in _by_key(found).items()],
        "columns": [{"table": one.table, "column": one.column, "key": one.key_id, "contents": one.count} for one in found],
    }


def _lines(first: str, found: Sequence[StoredContents]) -> list[str]:
    by_key = _by_key(found)
    told = ", ".join(f"{count:,} {_words(key_id)}" for key_id, count in by_key.items())
    lines = [f"{counted(sum(by_key.values()), 'content')}{f': {told}' if told else ''}."]
    return lines + [f"  {one.table}.{one.column}: {one.count:,} {_words(one.key_id)}" for one in found if one.key_id != first]


def _by_key(found: Sequence[StoredContents]) -> Counter[str | None]:
    counts: Counter[str | None] = Counter()
    for one in found:
        counts[one.key_id] += one.count
    return counts


def _words(key_id: str | None) -> str:
    return "in clear" if key_id is None else f"with key {key_id}"


def _why(done: Reencrypted, left: Sequence[StoredContents]) -> list[str]:
    lines = [f"{table}.{column} cannot be changed: {why}" for (table, column), why in done.unreadable.items()]
    if any((one.table, one.column) not in done.unreadable for one in left):
        lines.append("Somebody still writes with another key: put the new one in front everywhere, then run this again.")
    return lines
