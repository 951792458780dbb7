"""The simulated model server as a child process, for whoever has no model at hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clients.commands.context import CommandError, Context, ExitCode
from clients.own_modules import module_command, python_path
from clients.private_files import make_private_folder, open_private
from clients.settings import environment_of_children
from ratchet._processes.child_process import PipedProcess, begin_piped

STARTS_WITHIN = 20.0
STOPS_WITHIN = 5.0
NO_KEY = "none-needed"


@asynccontextmanager
async def simulated_model(context: Context) -> AsyncIterator[str]:
    """The simulated server as a child process; it ends when its standard input is closed, however we end."""
    logs = context.home.resolve() / "logs"
    make_private_folder(logs)
    with open_private(logs / "simulated.log", "ab") as errors:
        environment = environment_of_children(PYTHONPATH=python_path())
        child = await begin_piped(*module_command("clients.demo"), env=environment, errors=errors)
    try:
        yield str((await _ready(child, logs))["base_url"])
    finally:
        child.stdin.close()
        try:
            await asyncio.wait_for(child.wait(), STOPS_WITHIN)
        except TimeoutError:
            child.kill()
            await child.wait()


async def _ready(child: PipedProcess, logs: Path) -> dict[str, Any]:
    try:
        line = await asyncio.wait_for(child.stdout.readline(), STARTS_WITHIN)
        return dict(json.loads(line))
    except (TimeoutError, ValueError):
        raise CommandError(f"the simulated model does not start; see {logs / 'simulated.log'}", ExitCode.FAILED) from None
