"""The real engines for the session: one embedded stack, one worker, one database connection."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowHandle

from clients.embedded.stack import StackAddresses, embedded_stack
from clients.temporal import connect
from store.connection import Database
from tests.support.replaying import nothing_differs
from worker import Settings, serving

TESTS = Path(__file__).parent
PLUGINS = TESTS / "plugins"

LONGEST_FIRST = ("durability", "clients", "http", "end_to_end", "page", "hostile", "prompts")
"""Folders of tests that wait for processes and servers."""

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Short tests come last: where several processes share the tests, they fill up the time until the last is done."""
    folders = [*LONGEST_FIRST, *(folder.name for folder in sorted(TESTS.iterdir()) if folder.name not in LONGEST_FIRST)]
    items.sort(key=lambda item: folders.index(item.path.relative_to(TESTS).parts[0]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hostile text that a test captured must not break the report on its way to the process that collects reports."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest_asyncio.fixture(scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StackAddresses]:
    async with embedded_stack(tmp_path_factory.mktemp("stack"), ui=False) as addresses:
        yield addresses


@pytest_asyncio.fixture(scope="session")
async def engines(stack: StackAddresses) -> AsyncIterator[Engines]:
    """The stack with a worker in this process, which may import the plug-ins in `tests/support/plugins`."""
    settings = Settings(stack.database_url, plugins="plugged", plugin_path=PLUGINS, grace=timedelta(seconds=1))
    async with AsyncExitStack() as exits:
        client = await connect(stack.temporal_address)
        await exits.enter_async_context(serving(client, settings))
        database = await Database.open(stack.database_url)
        exits.push_async_callback(database.close)
        yield Engines(stack, client, database)


@pytest.fixture
def spec() -> Callable[..., dict[str, Any]]:
    """A small run over a deterministic target; keyword arguments replace parts of it."""

    def build(**parts: Any) -> dict[str, Any]:
        return {
            "name": "hill",
            "configuration": {
                "x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10},
                "unit": "metre",
            },
            "target": {"kind": "python", "ref": "plugged:hill"},
            "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(8)]},
            "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
            "objective": {"metric": "height"},
            "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
            "stop": {"max_rounds": 4, "no_improvement": 0},
            "seed": 7,
        } | parts

    return build
