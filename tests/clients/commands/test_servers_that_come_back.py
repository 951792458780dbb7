"""A command that begins while PostgreSQL dies waits for it, and goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import asyncpg

from clients.runs.service.servers import is_unreachable, once_back, reach_servers, told_away
from store.connection import StoreAway
from store.write.datasets import named_dataset


async def test_a_postgresql_that_dies_while_a_run_starts_is_waited_for(tmp_path: Path) -> None:
    told: list[str] = []
    async with reach_servers(tmp_path) as servers:
        begun = 0

        async def look() -> str | None:
            nonlocal begun
            begun += 1
            async with servers.database.transaction() as connection:
                if begun == 1:  # a backend that is killed takes the whole server down
                    os.kill(await connection.fetchval("SELECT pg_backend_pid()"), signal.SIGKILL)
                return await named_dataset(connection, "none")

        assert await once_back(servers, look, told.append) is None
    assert begun > 1
    assert set(told) == {"a server does not answer, trying again"}


def test_nobody_is_told_of_a_closed_connection_in_the_words_of_a_library() -> None:
    lost = asyncpg.InterfaceError("cannot call Transaction.__aexit__(): the underlying connection is closed")
    assert is_unreachable(lost)
    assert told_away(lost) == "PostgreSQL went away; the same command works once it is back"
    assert told_away(StoreAway("PostgreSQL at db:5432 does not answer: refused")).startswith("PostgreSQL at db:5432")
