"""When PostgreSQL goes away: which errors pass by themselves, and that everything goes on when it is back."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from store.connection import Database, StoreAway, is_away
from store.write.repositories import Store
from tests.support.store_examples import ExampleRun, PostgresServer


async def test_a_store_that_was_killed_and_came_back_is_used_as_before(mortal_postgres: PostgresServer) -> None:
    await mortal_postgres.execute("CREATE DATABASE store")
    database = await Database.open(mortal_postgres.url("store"))
    run = await ExampleRun(Store(database), database).open()
    await asyncio.gather(*(run.store.runs.adjusted_limits(run.run_id) for _ in range(20)))  # several connections

    mortal_postgres.kill()
    errors: list[BaseException] = []
    async with asyncio.timeout(20):
        while len(errors) < 25:  # a connection answers until its process has noticed that the server is gone
            if (failed := await error_of(run)) is not None:
                errors.append(failed)
    mortal_postgres.start()
    await mortal_postgres.until_it_answers()

    assert all(is_away(error) for error in errors), errors
    while (error := await error_of(run)) is not None:  # connections of before may still be found dead
        assert is_away(error), error
    await run.answer_everything()
    assert len((await run.store.outcomes.missing(run.shard())).pairs) == 0
    await database.close()


async def error_of(run: ExampleRun) -> BaseException | None:
    try:
        await run.store.outcomes.commit(run.shard(), run.suite, [run.outcome()])
    except Exception as error:
        return error
    return None


async def test_a_connection_cut_in_the_middle_of_a_query_says_try_again(database: Database, postgres: PostgresServer) -> None:
    async with database.connection() as connection:
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        query = asyncio.create_task(connection.execute("SELECT pg_sleep(30)"))
        await asyncio.sleep(0)
        await postgres.execute(f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(Exception, match=r"terminating|closed|lost") as caught:
            await query
        assert is_away(caught.value)
        with pytest.raises(Exception, match=r"closed|released back") as caught:
            await connection.execute("SELECT 1")
        assert is_away(caught.value)
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT 1") == 1


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        StoreAway("gone"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InterfaceError("pool is closing"),
        asyncpg.InternalClientError("got result for unknown protocol state 3"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        asyncpg.AdminShutdownError("terminating connection due to administrator command"),
        asyncpg.CrashShutdownError("terminating connection because of crash of another server process"),
        asyncpg.TooManyConnectionsError("sorry, too many clients already"),
        asyncpg.DeadlockDetectedError("deadlock detected"),
        asyncpg.SerializationError("could not serialize access"),
        asyncpg.DiskFullError("no space left on device"),
    ],
    ids=lambda error: f"{type(error).__name__} {error}",
)
def test_this_passes_by_itself(error: Exception) -> None:
    assert is_away(error)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.DataError("invalid input for query argument $1"),
        asyncpg.InterfaceError("the server expects 2 arguments for this query, 1 was passed"),
        asyncpg.UniqueViolationError("duplicate key"),
        asyncpg.CheckViolationError("violates check constraint"),
        asyncpg.UndefinedTableError("no such table"),
        asyncpg.InvalidPasswordError("password authentication failed"),
        ValueError("something else"),
        KeyError("a bug of ours"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_this_does_not(error: Exception) -> None:
    assert not is_away(error)
