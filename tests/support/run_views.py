"""What a run shows of itself: its progress, why it failed, and its rows in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from tests.support.engines import Engines


async def eventually(progress: Callable[[dict[str, Any]], bool], handle: WorkflowHandle[Any, Any]) -> dict[str, Any]:
    """Poll the progress query until it shows what is waited for."""
    async with asyncio.timeout(30):
        while True:
            shown: dict[str, Any] = await handle.query("progress")
            if progress(shown):
                return shown
            await asyncio.sleep(0.02)


async def failure_of(handle: WorkflowHandle[Any, Any]) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    return failed.value.cause


async def rows(engines: Engines, query: str, run_id: str) -> list[Any]:
    async with engines.database.connection() as connection:
        return list(await connection.fetch(f"{query} WHERE run_id = $1", run_id))
