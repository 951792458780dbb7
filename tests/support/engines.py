"""The real engines of a session: a running stack with a worker on it, and runs that are replayed when they end."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from clients.embedded.stack import StackAddresses
from store.connection import Database
from tests.support.replaying import nothing_differs

PLUGINS = Path(__file__).parent / "plugins"

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Engines:
    """A running stack with a worker on it."""

    addresses: StackAddresses
    client: Client
    database: Database

    async def start(self, spec: dict[str, Any], *, run_id: str | None = None) -> WorkflowHandle[Any, Any]:
        """Start a run as any Temporal client would: by name, with plain JSON."""
        return await self.client.start_workflow(
            "OptimizationWorkflow", spec, id=run_id or f"{spec.get('name', 'run')}-{next(_numbers)}", task_queue="optimization"
        )

    async def run(self, spec: dict[str, Any], *, run_id: str | None = None) -> dict[str, Any]:
        """Run to the end. Whatever a test is about, what its run decided follows from what is stored of it."""
        handle = await self.start(spec, run_id=run_id)
        result: dict[str, Any] = await handle.result()
        await nothing_differs(self.database, handle.id)
        return result
