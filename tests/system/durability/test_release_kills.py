"""kill -9 of worker and PostgreSQL in the middle of a release: the old prompt or the new one, and one line in the audit log."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import asyncpg
import pytest

from clients.embedded.stack import embedded_stack, stack_state
from clients.temporal import connect
from ratchet.prompts.prompt_errors import StoreAway
from store.connection import Database
from tests.support.engines import Engines
from tests.support.release_runs import Prompt, tried_prompt
from tests.support.worker_processes import WorkerProcess

T = TypeVar("T")
Spec = Callable[..., dict[str, Any]]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("victim", ["worker", "postgres"])
async def test_a_killed_release_is_whole_or_not_there(victim: str, spec: Spec, tmp_path: Path) -> None:
    random = Random(victim)
    async with embedded_stack(tmp_path / "stack", ui=False) as stack:
        client = await connect(stack.temporal_address)
        worker = WorkerProcess(stack, tmp_path / "calls")
        await worker.start()
        database = await Database.open(stack.database_url)
        async with tried_prompt(Engines(stack, client, database), spec()) as prompt:
            await prompt.released(x=500)
            for number in range(4):
                kind = {"kind": "rollback", "version": "1.0.0" if number % 2 == 0 else "1.0.1"}
                asking = asyncio.create_task(prompt.ask(release_id=f"killed-{number}", **kind))
                await asyncio.sleep(random.uniform(0.0, 0.08))
                if victim == "worker":
                    await worker.kill()
                    now = await at(prompt)
                    assert now in ("1.0.0", "1.0.1")
                    await worker.start()
                else:
                    os.kill(await postgres_of(stack.home), signal.SIGKILL)
                state = await asyncio.wait_for(asking, 90)
                assert state.status == "released"
                assert await at(prompt) == kind["version"]
            history = await once_up(lambda: prompt.prompts.history(prompt.name, "stable"))
            assert len(history) == 2 + 4
            log = await once_up(prompt.log)
            assert [(one.release_id, one.status) for one in log[1:]] == [(f"killed-{n}", "released") for n in range(4)]
        await database.close()
        await worker.kill(signal.SIGTERM)


async def at(prompt: Prompt) -> str | None:
    """Where stable is, as soon as the store answers."""
    return (await once_up(prompt.stable)).state.version


async def once_up(read: Callable[[], Awaitable[T]]) -> T:
    """What is read from PostgreSQL, which may just have been killed."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await read()
            except (OSError, StoreAway, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError, asyncpg.InterfaceError):
                await asyncio.sleep(0.05)


async def postgres_of(home: Path) -> int:
    """The server's process, as soon as the supervisor has it up again after the kill before."""
    async with asyncio.timeout(30):
        while (pid := stack_state(home).postgres_pid) is None:
            await asyncio.sleep(0.05)
    return pid
