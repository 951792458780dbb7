"""The schema: made once by whoever comes first, refused when it is newer, readable with psql."""

from __future__ import annotations

import asyncio
import traceback
from typing import Final

import asyncpg
import pytest
from temporalio.exceptions import ApplicationError

from store.connection import Database, SchemaMoved, StoreAway, is_away
from store.errors import store_errors
from store.schema import Migration, SchemaTooNew, SchemaTooOld, StoreError, migrate, migrations
from tests.support.store_examples import ExampleRun, PostgresServer

PASSWORD = "hunter2"


async def test_many_processes_that_start_at_once_migrate_a_fresh_database_once(postgres: PostgresServer) -> None:
    url = postgres.url(await postgres.new_database(template="template0"))

    databases = await asyncio.gather(*(Database.open(url, most_connections=2) for _ in range(8)))

    async with databases[0].connection() as connection:
        applied = await connection.fetch("SELECT version, name FROM schema_migrations ORDER BY version")
    assert [row["version"] for row in applied] == [migration.version for migration in migrations()]
    await asyncio.gather(*(database.close() for database in databases))


async def test_a_schema_newer_than_this_ratchet_is_refused_with_what_to_do(database: Database, database_url: str) -> None:
    async with database.connection() as connection:
        await connection.execute("INSERT INTO schema_migrations (version, name) VALUES (999, 'from the future')")

    with pytest.raises(SchemaTooNew, match=r"schema version 999, this Ratchet knows \d+: upgrade Ratchet"):
        await Database.open(database_url)


@pytest.mark.parametrize("version", [1, 24])
async def test_a_schema_of_a_pre_release_is_refused_with_a_way_on(database: Database, database_url: str, version: int) -> None:
    async with database.connection() as connection:
        await connection.execute("DELETE FROM schema_migrations WHERE version > 25")
        await connection.execute("UPDATE schema_migrations SET version = $1", version)

        with pytest.raises(SchemaTooOld, match=rf"version {version} of a pre-release; .* anew with 25: give it an empty data"):
            await Database.open(database_url)

        assert await connection.fetchval("SELECT max(version) FROM schema_migrations") == version


async def test_only_migrations_that_are_missing_are_applied(database: Database) -> None:
    more = (*migrations(), Migration(998, "one more", "CREATE TABLE one_more (n integer)"))
    async with database.connection() as connection:
        await migrate(connection, more)
        await migrate(connection, more)
        assert await connection.fetchval("SELECT count(*) FROM one_more") == 0


async def test_a_migration_that_fails_leaves_nothing_behind(database: Database) -> None:
    broken = (*migrations(), Migration(998, "broken", "CREATE TABLE half_made (n integer); SELECT 1 / 0"))
    async with database.connection() as connection:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(connection, broken)
        assert await connection.fetchval("SELECT to_regclass('half_made')") is None
        assert await connection.fetchval("SELECT max(version) FROM schema_migrations") == migrations()[-1].version


class TestSchemaThatMovedOn:
    """While an upgrade goes on, old workers serve for a while. No run ends because of that."""

    STATEMENTS: Final = [
        "ALTER TABLE scores RENAME COLUMN feedback TO told",
        "ALTER TABLE answers DROP CONSTRAINT answers_pkey, ADD COLUMN tenant text NOT NULL",
        "ALTER TABLE answers RENAME TO given_answers",
    ]

    @pytest.mark.parametrize("migration", STATEMENTS)
    async def test_an_old_worker_waits_for_a_new_one_and_says_so(self, example: ExampleRun, migration: str) -> None:
        run = await example.open()
        async with run.database.connection() as connection:
            await connection.execute(migration)
            await connection.execute("INSERT INTO schema_migrations (version, name) VALUES (999, 'from the future')")

        with pytest.raises(SchemaMoved, match=r"schema version 999, this worker knows \d+: it waits") as caught, store_errors():
            await run.store.outcomes.commit(run.shard(), run.suite, [run.outcome()])
        assert is_away(caught.value)

    async def test_a_mistake_of_ours_in_a_schema_that_we_know_is_not_waited_for(self, example: ExampleRun) -> None:
        run = await example.open()
        async with run.database.connection() as connection:
            await connection.execute(self.STATEMENTS[0])

        with pytest.raises(ApplicationError, match="refuses this for good: UndefinedColumnError") as caught, store_errors():
            await run.store.outcomes.commit(run.shard(), run.suite, [run.outcome()])
        assert caught.value.non_retryable


async def test_every_table_and_view_says_what_it_is_for(database: Database) -> None:
    async with database.connection() as connection:
        silent = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')"
            " AND relname <> 'schema_migrations' AND obj_description(oid) IS NULL"
        )
    assert silent == []


async def test_a_run_can_be_followed_with_psql(example: ExampleRun) -> None:
    run = await example.open()
    better = run.trial(run.candidate("better", parent_candidate_ids=("baseline",), rationale="be polite"))
    await run.store.trials.begin(run.trial())
    await run.record(run.trial(), 0.5)
    await run.store.trials.begin(better)
    await run.record(better, 0.75)

    async with run.database.connection() as connection:
        overview = await connection.fetchrow("SELECT status, baseline_score, completed, running FROM run_overview")
        trials = await connection.fetch("SELECT candidate_id, purpose, gain, parents, rationale FROM trial_overview")
        changes = await connection.fetch("SELECT candidate_id, factor, before::text, after::text FROM factor_changes")
    assert overview is not None and tuple(overview) == ("running", 0.5, 2, 0)
    assert [tuple(row) for row in trials] == [
        ("baseline", "baseline", 0.0, [], None),
        ("better", "candidate", 0.25, ["baseline"], "be polite"),
    ]
    assert [tuple(row) for row in changes] == [("better", "prompt", '"Sort it."', '"Sort it, better."')]


class TestRefusals:
    """What cannot be opened says so, and never says the password."""

    async def test_a_wrong_password_does_not_show_in_the_error(self, postgres: PostgresServer) -> None:
        url = postgres.url("postgres").replace("ratchet@", f"nobody_we_know:{PASSWORD}@")
        with pytest.raises(StoreError, match="refuses the login") as caught:
            await Database.open(url)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))

    async def test_a_database_that_is_not_there_is_named(self, postgres: PostgresServer) -> None:
        with pytest.raises(StoreError, match=r'database "missing" does not exist; create it first'):
            await Database.open(postgres.url("missing"))

    async def test_an_address_where_nothing_answers_may_be_tried_again(self) -> None:
        with pytest.raises(StoreAway, match=r"PostgreSQL at 127\.0\.0\.1:1/ratchet does not answer") as caught:
            await Database.open(f"postgresql://ratchet:{PASSWORD}@127.0.0.1:1/ratchet")
        assert is_away(caught.value)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))

    @pytest.mark.parametrize(
        "url", ["not a url", f"mysql://me:{PASSWORD}@there/db", f"postgresql://me:{PASSWORD}@there:port/db"]
    )
    async def test_something_that_is_no_url_is_answered_with_the_right_form(self, url: str) -> None:
        with pytest.raises(StoreError, match="postgresql://user:password@host:port/database") as caught:
            await Database.open(url)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))


async def test_answers_of_before_are_kept_when_they_are_parted_from_their_scores(postgres: PostgresServer) -> None:
    """What one migration turns into other tables: nothing that was paid for is lost, nor counted twice."""
    first = [migration for migration in migrations() if migration.version < 27]
    database = await asyncpg.connect(postgres.url(await postgres.new_database(template="template0")))
    await migrate(database, tuple(first))
    await database.execute(
        """
        INSERT INTO outcomes (config_hash, evaluator, run_id, item_hash, replicate, trial_id, scored_by, status, output, error,
                              passed, scores, score_details, feedback, tokens, cost)
        VALUES ('c', 'e', 'run', 'judged', 0, 't', 'later', 'answered', '"yes"', NULL, true, '{"tone": 1}',
                '{"tone": {"passed": true, "tokens": 30, "cost": 0.5}}', 'fine', 40, 0.75),
               ('c', 'e', 'run', 'failed', 0, 't', NULL, 'failed', NULL, 'boom', false, '{}', NULL, 'boom', 10, 0.25);
        INSERT INTO datasets VALUES ('d', 'd', 2);
        INSERT INTO runs (run_id, execution_id, task_queue, name, use_case, experiment, optimizer, objective, direction,
                          dataset_id, evaluation_suite_id, search_split, baseline_config_hash, spec, status)
        VALUES ('run', 'x', 'q', 'n', 'n', 'n', 'o', 'tone', 'maximize', 'd', 's', 'all', 'c', '{}', 'running');
        INSERT INTO suites VALUES ('run', 'all', 's', 'd', 'e', 2, '{"evaluator": "e", "metric": "tone"}');
        INSERT INTO unscored_answers (run_id, config_hash, evaluator, item_hash, replicate, trial_id, output, tokens, cost)
        VALUES ('run', 'c', 'e', 'waiting', 0, 't', '"no"', 10, 0.25);
        """
    )
    await migrate(database)
    rows = await database.fetch(
        "SELECT item_hash, status, output #>> '{}' AS output, error, scored_by, tokens, cost, scoring_tokens, scores::text"
        " FROM outcomes ORDER BY item_hash"
    )
    assert [tuple(row) for row in rows] == [
        ("failed", "failed", None, "boom", None, 10, 0.25, 0, "{}"),
        ("judged", "answered", "yes", None, "later", 40, 0.75, 30, '{"tone": 1}'),
    ]
    waiting = await database.fetch(
        "SELECT item_hash, tokens FROM answers WHERE answer_id NOT IN (SELECT answer_id FROM scores)"
    )
    assert [tuple(row) for row in waiting] == [("waiting", 10)]
    suite = await database.fetchrow("SELECT target, scorer, body ->> 'scorer_fingerprint' FROM suites")
    assert suite is not None and tuple(suite) == ("e", "e", "e")
    assert await database.fetchval("SELECT nextval('answer_ids') > max(answer_id) FROM answers")
    await database.close()
