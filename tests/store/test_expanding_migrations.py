"""Migrations expand first and contract later: workers of the version before live with what comes."""

from __future__ import annotations

import asyncpg
import pytest

from store.connection import Database
from store.schema import LAST_UNTOLD, Migration, SchemaTooNew, migrate, migrations
from tests.support.expanding_migrations import what_breaks

NEWEST = migrations()[-1].version
TOLD = [migration for migration in migrations() if migration.version > LAST_UNTOLD]

WAY_ON = (
    "workers of the version before may still serve. Only add (a table; a column that may be empty or has a default; an index; "
    "a view), and take away in a later release; then say in the migration from which schema on nobody uses it any more: "
    "`-- compatible since NUMBER`"
)


def test_a_migration_only_adds_or_says_since_when_nobody_needs_what_it_takes_away() -> None:
    silent = [migration for migration in TOLD if migration.compatible_since is None]
    assert {migration.name: broken for migration in silent if (broken := what_breaks(migration.sql))} == {}, WAY_ON


def test_what_a_migration_says_of_its_compatibility_can_be_true() -> None:
    told = [(migration.compatible_since, migration.version) for migration in TOLD if migration.compatible_since is not None]
    assert all(LAST_UNTOLD <= since <= version for since, version in told)


def test_migrations_of_the_time_before_the_rule_are_told_apart_by_it() -> None:
    broken = {migration.version for migration in migrations() if what_breaks(migration.sql)}
    assert broken & {25, 27, 28, 29, 30} == {27}


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE teams (name text PRIMARY KEY, budget numeric NOT NULL)",
        "CREATE TABLE teams (name text); ALTER TABLE teams ADD CONSTRAINT known CHECK (name <> '')",
        "CREATE TABLE teams (name text); CREATE UNIQUE INDEX one_of_each ON teams (name)",
        "ALTER TABLE runs ADD COLUMN team text",
        "ALTER TABLE runs ADD COLUMN team text NOT NULL DEFAULT 'all', ADD COLUMN paid numeric(10, 2)",
        "CREATE INDEX IF NOT EXISTS by_team ON runs (team)",
        "COMMENT ON TABLE runs IS 'DROP TABLE runs; is no statement here'",
        "CREATE OR REPLACE VIEW run_overview AS SELECT 1 -- ALTER TABLE runs DROP COLUMN name",
        "UPDATE runs SET name = name",
        "ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0.02, fillfactor = 90)",
        "CREATE FUNCTION one() RETURNS integer LANGUAGE sql AS $$ DELETE FROM runs; SELECT 1 $$",
    ],
)
def test_what_only_adds_passes(statement: str) -> None:
    assert what_breaks(statement) == []


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE runs",
        "DROP VIEW run_overview",
        "TRUNCATE runs",
        "DELETE FROM runs",
        "ALTER TABLE runs DROP COLUMN name",
        "ALTER TABLE runs RENAME COLUMN name TO title",
        "ALTER TABLE runs RENAME TO executions",
        "ALTER TABLE runs ALTER COLUMN name SET NOT NULL",
        "ALTER TABLE runs ALTER COLUMN name TYPE integer USING 1",
        "ALTER TABLE runs ADD COLUMN team text NOT NULL",
        "ALTER TABLE runs ADD COLUMN team text UNIQUE",
        "ALTER TABLE runs ADD COLUMN team text DEFAULT 'all' REFERENCES teams",
        "ALTER TABLE runs ADD COLUMN team text, DROP COLUMN name",
        "ALTER TABLE runs ADD CONSTRAINT named CHECK (name <> '')",
        "CREATE UNIQUE INDEX one_of_each ON runs (name)",
        "CREATE TRIGGER no BEFORE INSERT ON runs EXECUTE FUNCTION refuse()",
    ],
)
def test_what_the_version_before_could_trip_over_is_named(statement: str) -> None:
    assert len(what_breaks(f"CREATE TABLE other (n integer); {statement}")) == 1


class TestWorkerOfTheVersionBefore:
    """It opens a database that others have migrated past it, as long as the schema says that it may."""

    async def migrated(self, url: str, *further: Migration) -> None:
        connection = await asyncpg.connect(url)
        try:
            await migrate(connection, (*migrations(), *further))
        finally:
            await connection.close()

    async def test_serves_on_after_migrations_that_only_add(self, database: Database, database_url: str) -> None:
        added = Migration(NEWEST + 1, "added", "CREATE TABLE added (n integer)")
        await self.migrated(database_url, added, Migration(NEWEST + 2, "names", "ALTER TABLE added ADD COLUMN name text"))

        opened = await Database.open(database_url)
        await opened.close()

        async with database.connection() as connection:
            assert await connection.fetchval("SELECT max(version) FROM schema_migrations") == NEWEST + 2

    @pytest.mark.parametrize(("since", "serves"), [(NEWEST, True), (NEWEST + 1, False)])
    async def test_serves_on_after_one_that_takes_away_if_it_does_not_use_that_any_more(
        self, database: Database, database_url: str, since: int, serves: bool
    ) -> None:
        expanded = Migration(NEWEST + 1, "another place", "CREATE TABLE elsewhere (n integer)")
        contracted = Migration(NEWEST + 2, "no more", f"-- compatible since {since}\nDROP VIEW factor_changes")
        await self.migrated(database_url, expanded, contracted)

        if serves:
            await (await Database.open(database_url)).close()
        else:
            with pytest.raises(SchemaTooNew, match=f"version {NEWEST + 2}, this Ratchet knows {NEWEST}"):
                await Database.open(database_url)

    async def test_is_refused_for_good_by_whatever_was_added_since(self, database: Database, database_url: str) -> None:
        contracted = Migration(NEWEST + 1, "no more", f"-- compatible since {NEWEST + 1}\nDROP VIEW factor_changes")
        await self.migrated(database_url, contracted, Migration(NEWEST + 2, "added", "CREATE TABLE added (n integer)"))

        with pytest.raises(SchemaTooNew):
            await Database.open(database_url)
