"""A worker of its own, exposed to everything: short patience with endpoints, a data directory, plug-ins that misbehave."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

import worker
from activities.endpoints.chat_models import ChatModels
from activities.settings import EVALUATION_QUEUES, DatasetSettings, Settings
from clients.demo.injected_faults import RuleLike
from clients.demo.model_server import simulated_model
from clients.embedded.stack import StackAddresses
from clients.temporal import connect
from store.connection import Database
from tests.support.allowed import OPERATOR, allow
from tests.support.engines import PLUGINS
from tests.support.hostile_harness import LIES, SHORT_PATIENCE, TASK_QUEUE, Arena, Ended, as_json, spec
from tests.support.mortal_worker import LONGEST, QUEUE, mortal_evaluation_worker

BROKEN_MODULES = {
    "broken_syntax": "def target(:\n",
    "broken_import": "import a_module_that_is_not_installed\n",
    "raises_on_import": "raise RuntimeError('not today \\ud800')\n",
    "exits_on_import": "import sys\nsys.exit(3)\n",
    "dies_on_import": "import os\nos._exit(9)\n",
}
DATA_FILES = {
    "nan.jsonl": b'{"input": NaN}\n',
    "latin.jsonl": '{"input": "é"}\n'.encode("latin-1"),
    "twice.jsonl": b'{"input": 1, "input": 2}\n',
    "empty.jsonl": b"\n\n",
    "list.jsonl": b"[1, 2]\n",
    "unknown.jsonl": b'{"input": 1, "expcted": 2}\n',
    "same_id.jsonl": b'{"id": "a", "input": 1}\n{"id": "a", "input": 2}\n',
    "deep.jsonl": b'{"input": ' + b"[" * 5000 + b"]" * 5000 + b"}\n",
}


@pytest.fixture(scope="session")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, content in DATA_FILES.items():
        (folder / name).write_bytes(content)
    outside = tmp_path_factory.mktemp("outside") / "secret.jsonl"
    outside.write_text('{"input": 1}\n')
    (folder / "link.jsonl").symlink_to(outside)
    return folder


@pytest.fixture(scope="session")
def broken_modules(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("broken")
    for name, source in BROKEN_MODULES.items():
        (folder / f"{name}.py").write_text(source)
    sys.path.append(str(folder))
    return list(BROKEN_MODULES)


@pytest_asyncio.fixture(scope="session")
async def arena(stack: StackAddresses, data_directory: Path, broken_modules: list[str]) -> AsyncIterator[Arena]:
    settings = Settings(
        stack.database_url,
        operator=OPERATOR,
        task_queue=TASK_QUEUE,
        evaluation_task_queue=f"{TASK_QUEUE}-evaluation",
        plugins=",".join(["plugged", "misbehaving", *broken_modules]),
        plugin_path=PLUGINS,
        datasets=DatasetSettings(data_dir=data_directory),
        grace=timedelta(seconds=1),
    )
    async with AsyncExitStack() as exits:
        patched = exits.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(worker, "ChatModels", partial(ChatModels, patience=SHORT_PATIENCE))
        client = await connect(stack.temporal_address)
        rules: list[RuleLike] = [{"lie": lie, "contains": f"lie {lie}"} for lie in LIES]
        models = await exits.enter_async_context(
            simulated_model(rules=[*rules, {"status": 401, "contains": "be locked"}, {"status": 404, "contains": "be missing"}])
        )
        await exits.enter_async_context(worker.serving(client, settings))
        database = await Database.open(stack.database_url)
        exits.push_async_callback(database.close)
        yield Arena(client, database, models.base_url)


@pytest_asyncio.fixture(scope="session", autouse=True)
async def death(
    arena: Arena, stack: StackAddresses, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[asyncio.Task[Ended]]:
    """Begun before everything else in this directory, because it is the one case that has to wait for timeouts."""
    log = tmp_path_factory.mktemp("mortal") / "worker.log"
    allow(EVALUATION_QUEUES, f"{QUEUE}-evaluation")
    sent = spec(
        target={"kind": "python", "ref": "misbehaving:kills_its_process"},
        execution={"evaluation_task_queue": f"{QUEUE}-evaluation"},
    )

    async def run() -> Ended:
        async with mortal_evaluation_worker(stack, log) as deaths:
            end = await arena.run([as_json(sent)], "hostile-death", longest=LONGEST)
            assert deaths.count >= 2
            return end

    running = asyncio.create_task(run())
    yield running
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
