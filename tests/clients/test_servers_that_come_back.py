"""A command that begins while PostgreSQL dies waits for it, and goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from activities.store.samples import named_dataset
from clients.commands.servers import once_back, reach_servers


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
