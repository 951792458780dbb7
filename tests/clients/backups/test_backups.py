"""A backup is the store at one moment; what is not as it was written is refused, and then nothing is changed."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest

from clients.backups.archive import MANIFEST, BadBackup, ReadArchive
from clients.backups.restored_store import end_open_runs, replay_restored, restore_prompts, restore_tables
from clients.backups.written_backup import one_moment, write_backup
from ratchet.prompts import Change, Overrides, PromptTemplate, open_store
from store.connection import Database
from store.read.reader import StoreReader
from store.schema import StoreError, migrate, migrations
from store.table_copies import copied_tables
from store.write.repositories import Store
from tests.support.store_examples import ExampleRun, PostgresServer

TEMPLATE = PromptTemplate.from_yaml('prompt: kept/elsewhere\nsections: [{path: text, body: "Say it."}]\n')


@pytest.fixture
async def empty(postgres: PostgresServer) -> AsyncIterator[str]:
    """The address of a database without any tables."""
    name = await postgres.new_database("template0")
    yield postgres.url(name)
    await postgres.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


async def measured(example: ExampleRun) -> ExampleRun:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.answer_everything()
    await run.record(run.trial())
    return run


async def restored(file: Path, url: str) -> None:
    archive = ReadArchive(file)
    try:
        await restore_tables(archive, url)
    finally:
        archive.close()


async def rows_of(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table that is copied."""
    async with one_moment(url) as connection:
        return {
            table.name: sorted(
                [tuple(row) for row in await connection.fetch(f"SELECT {', '.join(table.columns)} FROM {table.name}")], key=repr
            )
            for table in await copied_tables(connection)
        }


async def test_every_row_comes_back_and_counting_goes_on(
    example: ExampleRun, database_url: str, empty: str, tmp_path: Path
) -> None:
    run = await measured(example)
    manifest = await write_backup(database_url, "postgres", tmp_path / "one.zip")
    assert manifest.open_runs == (run.run_id,)
    await restored(tmp_path / "one.zip", empty)
    there = await rows_of(empty)
    assert there == await rows_of(database_url)
    assert len(there["answers"]) == manifest.rows("answers") == 10

    database = await Database.open(empty)
    async with database.connection() as connection:
        counted = await connection.fetchval("SELECT nextval('answer_ids') > (SELECT max(answer_id) FROM answers)")
        assert counted is True
    assert await end_open_runs(database, manifest) == [run.run_id]
    stored = await StoreReader(database).runs.load(run.run_id)
    assert stored is not None and stored.status == "terminated"
    assert f"`ratchet retry {run.run_id}` goes on with its answers" in stored.message
    assert (await replay_restored(database, 5)).finished == 0
    await database.close()


async def test_a_backup_sees_one_moment_while_answers_come_in(example: ExampleRun, database_url: str, tmp_path: Path) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    shard = run.shard()
    pairs = (await run.store.outcomes.missing(shard)).pairs

    async def answering() -> None:
        for pair in pairs:
            await run.store.outcomes.commit(shard, run.suite, [run.outcome(pair.position, pair.replicate)])

    manifest, _ = await asyncio.gather(write_backup(database_url, "postgres", tmp_path / "one.zip"), answering())
    assert manifest.rows("answers") == manifest.rows("scores"), "an answer and its score are stored together"


async def test_an_older_schema_is_restored_as_it_was_and_then_brought_up_to_date(
    postgres: PostgresServer, empty: str, tmp_path: Path
) -> None:
    name = await postgres.new_database("template0")
    old = tuple(migration for migration in migrations() if migration.version <= 30)
    connection = await asyncpg.connect(postgres.url(name))
    await migrate(connection, old)
    await connection.execute("INSERT INTO overlays (config_hash, configuration) VALUES ('abc', '{\"x\": 1}')")
    await connection.close()
    manifest = await write_backup(postgres.url(name), "postgres", tmp_path / "old.zip")
    assert manifest.schema_version == 30
    await restored(tmp_path / "old.zip", empty)
    database = await Database.open(empty)
    async with database.connection() as there:
        assert await there.fetchval("SELECT max(version) FROM schema_migrations") == migrations()[-1].version
        assert await there.fetchval("SELECT configuration::text FROM overlays") == '{"x": 1}'
    await database.close()
    await postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")

    newer = await postgres.new_database()
    with pytest.raises(StoreError, match="give a database without any tables"):
        await restored(tmp_path / "old.zip", postgres.url(newer))


def without_the_manifest(file: Path) -> None:
    rewrite(file, lambda name, content: None if name == MANIFEST else content)


def with_another_score(file: Path) -> None:
    rewrite(file, lambda name, content: content.replace(b"0.001", b"0.002") if name == "tables/answers" else content)


def with_a_row_less(file: Path) -> None:
    rewrite(file, lambda name, content: b"".join(content.splitlines(True)[1:]) if name == "tables/answers" else content)


def of_a_later_ratchet(file: Path) -> None:
    def changed(name: str, content: bytes) -> bytes:
        if name != MANIFEST:
            return content
        manifest = json.loads(content)
        manifest["migrations"].append({**manifest["migrations"][-1], "version": 999})
        return json.dumps(manifest).encode()

    rewrite(file, changed)


def with_a_table_of_somebody_else(file: Path) -> None:
    rewrite(file, lambda name, content: content.replace(b'"overlays"', b'"pg_authid"') if name == MANIFEST else content)


def rewrite(file: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            changed = change(name, content)
            if changed is not None:
                archive.writestr(name, changed)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (without_the_manifest, "is no backup, or was cut off"),
        (with_another_score, "tables/answers is not as it was written"),
        (with_a_row_less, "tables/answers is not as it was written"),
        (of_a_later_ratchet, "the backup has schema version 999"),
        (with_a_table_of_somebody_else, "pg_authid is no table of schema version"),
    ],
)
async def test_what_is_not_as_it_was_written_changes_nothing(
    damage: Callable[[Path], None], told: str, example: ExampleRun, database_url: str, empty: str, tmp_path: Path
) -> None:
    await measured(example)
    file = tmp_path / "one.zip"
    await write_backup(database_url, "postgres", file)
    damage(file)
    with pytest.raises((BadBackup, StoreError), match=told):
        await restored(file, empty)
    assert await rows_of(empty) == {}


async def test_prompts_that_are_kept_elsewhere_come_along(store: Store, database_url: str, empty: str, tmp_path: Path) -> None:
    before, after = f"file:{tmp_path / 'before'}", f"file:{tmp_path / 'after'}"
    async with await open_store(before) as prompts:
        await prompts.store(TEMPLATE, Overrides(), tag="stable", expected=None, change=Change(by="ann"))
    manifest = await write_backup(database_url, before, tmp_path / "one.zip")
    assert manifest.prompts is not None and manifest.prompts.store == before and manifest.prompts.files
    archive = ReadArchive(tmp_path / "one.zip")
    await restore_tables(archive, empty)
    assert await restore_prompts(archive, after, empty) == 1
    archive.close()
    async with await open_store(after) as prompts:
        state = await prompts.current("kept/elsewhere", "stable")
    assert state is not None and state.change.by == "ann"


async def test_a_backup_that_fails_leaves_no_file(empty: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store of Ratchet"):
        await write_backup(empty, "postgres", tmp_path / "one.zip")
    assert list(tmp_path.iterdir()) == []
