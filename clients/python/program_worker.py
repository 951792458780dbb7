"""An evaluation worker in the program's own process, for its functions: on a task queue that nobody else serves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from activities.plugins.program import Program, ProgramFunction
from activities.settings import Settings
from clients.embedded.home import Home
from clients.runs.service.servers import Servers
from clients.runs.service.workers import GRACE, PluginCode, environment_of_worker
from clients.temporal import connect

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path


@asynccontextmanager
async def serving_functions(
    servers: Servers,
    home: Path,
    code: PluginCode,
    functions: Mapping[str, ProgramFunction],
    loop: asyncio.AbstractEventLoop | None,
) -> AsyncIterator[None]:
    """Serve until the block is left; what is in flight then is handed back. `loop` is where async functions belong."""
    from worker import serving  # wires every room, and is loaded only by whoever serves

    environment = environment_of_worker(servers, Home.at(home)) | code.environment()
    settings = Settings.from_environment("evaluation", timedelta(seconds=GRACE), environment)
    if not code.modules:
        settings = replace(settings, plugin_path=None)  # the program's own import path stays as it is
    client = await connect(servers.temporal_address if servers.embedded else None)
    async with serving(client, settings, program=Program(functions, loop)):
        yield
