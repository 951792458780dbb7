"""Stored contents brought to the newest key: all of them, whoever is killed or writes meanwhile, and read as before."""

from __future__ import annotations

import asyncio
import signal
import sys
from base64 import b64encode

import asyncpg
import pytest

from ratchet._content_tokens import MARK
from ratchet._encryption import EncryptionKeys
from ratchet.prompts import OverrideStore
from ratchet.prompts.stores.postgres import PostgresBackend
from store.connection import Database
from store.encrypted_contents import contents_of
from store.read.marks import MarkedThing
from store.schema import StoreError
from store.write.content_columns import CONTENT_TABLES
from store.write.marks import Marks
from store.write.reencryption import Reencryption
from store.write.repositories import Store
from tests.support.forked_commands import ROOT
from tests.support.store_examples import ExampleRun
from tests.support.stored_contents import WORD, everything_said, store_everything, stored_rows

OLD_KEY, NEW_KEY = bytes(32), bytes(range(32))
OLD = EncryptionKeys({"old": OLD_KEY})
BOTH = EncryptionKeys({"new": NEW_KEY, "old": OLD_KEY})
NEW = EncryptionKeys({"new": NEW_KEY})


async def filled(url: str, keys: EncryptionKeys | None, run_id: str) -> None:
    database = await Database.open(url, keys=keys, most_connections=2)
    await store_everything(database, run_id)
    await database.close()


async def opened(url: str, keys: EncryptionKeys) -> Database:
    return await Database.open(url, keys=keys, most_connections=4)


def lines_with(word: str, rows: dict[str, list[str]]) -> list[str]:
    """With its table; a line as often as it has the word."""
    return [f"{table}: {line}" for table, lines in rows.items() for line in lines for _ in range(line.count(word))]


async def test_what_was_stored_in_clear_and_with_an_old_key_is_all_brought_to_the_new_one(database_url: str) -> None:
    """Killed in the middle and run again; then the old key is retired, and everything is read without it."""
    await filled(database_url, None, "plain-1")
    await filled(database_url, OLD, "old-1")
    database = await opened(database_url, BOTH)
    said = await everything_said(database)
    found = await Reencryption(database).count()
    columns = {(table.name, column.name, "old") for table in CONTENT_TABLES for column in table.columns}
    assert {(one.table, one.column, one.key_id) for one in found if one.key_id} == columns, (
        "store_everything stores one of each"
    )
    tokens = len(lines_with(MARK, await stored_rows(database_url)))
    assert tokens == sum(one.count for one in found if one.key_id), "something else is encrypted, too: name its column"

    with pytest.raises(StoreError, match="stored contents are encrypted with key 'old'"):
        await Reencryption(database).retire("old")
    await killed_after(database_url, batches=20)
    left = {(one.key_id) for one in await Reencryption(database).count()}
    assert left == {"new", "old", None}, "it was killed before it began, or after it ended"
    assert await everything_said(database) == said

    done = await Reencryption(database).carry_out()
    assert done.rows.total() > 20 and not done.unreadable
    assert {one.key_id for one in await Reencryption(database).count()} == {"new"}
    rows = await stored_rows(database_url)
    assert lines_with(WORD, rows) == []
    assert lines_with("old:", rows) == []
    assert not (await Reencryption(database).carry_out()).rows, "there was nothing left to do"

    assert await Reencryption(database).retire("old") and not await Reencryption(database).retire("old")
    with pytest.raises(StoreError, match="'new' is the one that encrypts"):
        await Reencryption(database).retire("new")
    await database.close()
    database = await opened(database_url, NEW)
    assert await everything_said(database) == said
    async with OverrideStore(await PostgresBackend.open(database_url, NEW)) as prompts:
        assert WORD in repr((await prompts.resolve("support/plain-1", tag="stable")).template.sections)
        assert len(await prompts.history("support/triage", tag="stable")) == 3
        temporary = await prompts.resolve("support/triage", tag="opt-old-1")
        assert await prompts.delete("support/triage", tag="opt-old-1", expected=temporary.state.revision)
    async with database.connection() as connection:
        row = await connection.fetchrow(
            "SELECT spec -> 'seed' AS seed, judged ->> 'kept' AS kept, body ->> 'same_as' AS same_as,"
            " (SELECT details -> 'exact' ->> 'passed' FROM scores WHERE details IS NOT NULL LIMIT 1) AS passed"
            " FROM runs JOIN trials USING (run_id) JOIN suites USING (run_id) WHERE run_id = 'plain-1' AND judged IS NOT NULL"
        )
        assert row is not None and (row["kept"], row["passed"]) == ("false", "true"), "what queries look at is readable"
        assert row["seed"] is not None and row["same_as"] is not None
    await database.close()


async def killed_after(url: str, *, batches: int) -> None:
    """By kill -9, in a process of its own."""
    keys = ",".join(f"{name}:{b64encode(key).decode()}" for name, key in BOTH.keys.items())
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-P", "-m", "tests.support.killed_reencryption", url, str(batches), keys],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert await process.wait() == -signal.SIGKILL


async def test_a_row_that_somebody_writes_is_left_to_him_and_taken_the_next_time(database_url: str) -> None:
    """It waits for no lock, so no writer meets it in a deadlock; and what he wrote is not overwritten."""
    old = await Database.open(database_url, keys=OLD, most_connections=2)
    run = await ExampleRun(Store(old), old).open()
    mark = await Marks(old).add(MarkedThing(run_id=run.run_id), "note", "first", "ann", "a test")
    database = await opened(database_url, BOTH)
    reencryption = Reencryption(database, most_seconds_for_writers=0)
    async with old.transaction() as connection:
        await connection.execute(
            "UPDATE marks SET text = $2 WHERE number = $1", mark.number, contents_of(connection).text("second")
        )
        await reencryption.carry_out()
        left = {(one.table, one.key_id) for one in await reencryption.count() if one.key_id != "new"}
        assert left == {("marks", "old")}
    assert (await reencryption.carry_out()).rows == {"marks": 1}
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT text FROM marks") == "second"
    for one in (old, database):
        await one.close()


async def test_what_cannot_be_read_stays_and_is_told(database_url: str) -> None:
    await filled(database_url, EncryptionKeys({"lost": bytes(31) + b"1"}), "lost-1")
    connection = await asyncpg.connect(database_url)
    await connection.execute("DELETE FROM encryption_keys")
    await connection.close()
    database = await opened(database_url, BOTH)
    reencryption = Reencryption(database)
    before = await reencryption.count()
    done = await reencryption.carry_out()
    assert not done.rows and len(done.unreadable) == len(before)
    assert all("key 'lost' is missing" in why for why in done.unreadable.values())
    assert await reencryption.count() == before
    await database.close()


async def test_rows_that_are_only_added_take_no_other_change(database_url: str) -> None:
    await filled(database_url, OLD, "old-1")
    connection = await asyncpg.connect(database_url)
    for statement in (
        "UPDATE prompt_templates SET template = '{}'",
        "UPDATE prompt_templates SET name = 'other/name'",
        "UPDATE prompt_changes SET why = 'another reason'",
        """UPDATE prompt_changes SET state = '{"$encrypted": 1}'""",
        "UPDATE releases SET comment = 'another'",
        "UPDATE releases SET changes = '{}', first_template = NULL",
        "DELETE FROM releases",
    ):
        with pytest.raises(asyncpg.RaiseError, match=r"only added|append-only"):
            await connection.execute(statement)
    await connection.close()
