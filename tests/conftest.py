"""The real engines for the session: one embedded stack, one worker, one database connection."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from activities.settings import Settings
from clients.embedded.stack import StackAddresses, embedded_stack
from clients.temporal import connect
from store.connection import Database
from tests.support.allowed import OPERATOR
from tests.support.engines import PLUGINS, Engines
from tests.support.hill_specs import hill_spec
from tests.support.long_tests import is_long
from worker import serving

gc.disable()  # until all modules are there: looking for garbage takes a quarter of collecting tests

# On a busy machine everything takes longer: that is no finding.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

TESTS = Path(__file__).parent

LONGEST_FIRST = ("system", "clients", "ratchet", "store", "activities")
"""Folders of tests that wait for processes and servers."""

SLOW_FOLDERS = (
    *("system", "benchmarks"),
    *(f"clients/{name}" for name in ("commands", "demo", "embedded", "http", "page", "runs")),
)
SLOW_FIXTURES = {"stack", "unserved_stack", "mortal_postgres", "redis", "moto", "browser"}
"""What starts servers and processes: `make test-fast` leaves out these folders, and whatever needs one of these fixtures."""

pytest_plugins = (
    "pytester",
    "tests.support.memory_folder",
    "tests.support.postgres",
    "tests.support.counted",
    "tests.support.model_client",
    "tests.support.command_bench",
    "tests.support.prompt_places",
)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: whoever collects garbage need not look at it again, nor so often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow. It comes first: where several processes share the tests, the others fill up the time until the last
    is done. Files that come one after the other wait alike, such as those that kill; so the second half is mixed into the
    first."""
    for item in items:
        folder = item.path.relative_to(TESTS).parent.as_posix()
        needed = set(getattr(item, "fixturenames", ()))
        if needed & SLOW_FIXTURES or any(f"{folder}/".startswith(f"{slow}/") for slow in SLOW_FOLDERS):
            item.add_marker("slow")
        if is_long(item.nodeid):
            item.add_marker("long")
    folders = [*LONGEST_FIRST, *(folder.name for folder in sorted(TESTS.iterdir()) if folder.name not in LONGEST_FIRST)]
    items.sort(key=lambda item: (item.get_closest_marker("slow") is None, folders.index(item.path.relative_to(TESTS).parts[0])))
    files = list(dict.fromkeys(item.path for item in items if item.get_closest_marker("slow")))
    half = (len(files) + 1) // 2
    place = {file: 2 * (number % half) + number // half for number, file in enumerate(files)}
    items.sort(key=lambda item: place[item.path] if item.get_closest_marker("slow") else len(files))


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
async def unserved_stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StackAddresses]:
    """A stack without any worker, for tests that bring their own, one after the other."""
    async with embedded_stack(tmp_path_factory.mktemp("unserved"), ui=False) as addresses:
        yield addresses


@pytest_asyncio.fixture(scope="session")
async def engines(stack: StackAddresses) -> AsyncIterator[Engines]:
    """The stack with a worker in this process, which may import the plug-ins in `tests/support/plugins`."""
    of_worker = Settings(
        stack.database_url, operator=OPERATOR, plugins="plugged", plugin_path=PLUGINS, grace=timedelta(seconds=1)
    )
    async with AsyncExitStack() as exits:
        client = await connect(stack.temporal_address)
        await exits.enter_async_context(serving(client, of_worker))
        database = await Database.open(stack.database_url)
        exits.push_async_callback(database.close)
        yield Engines(stack, client, database)


@pytest.fixture
def spec() -> Callable[..., dict[str, Any]]:
    """A small run over a deterministic target; keyword arguments replace parts of it."""

    return hill_spec
