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

STARTS_WITHIN = 20.0
STOPS_WITHIN = 5.0
NO_KEY = "none-needed"


@asynccontextmanager
async def simulated_model(context: Context) -> AsyncIterator[str]:
    """The simulated server as a child process; it ends when its standard input is closed, however we end."""
    logs = context.home.resolve() / "logs"
    make_private_folder(logs)
    with open_private(logs / "simulated.log", "ab") as errors:
        child = await asyncio.create_subprocess_exec(
            *module_command("clients.demo"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=environment_of_children(PYTHONPATH=python_path()),
            start_new_session=True,
        )
    try:
        yield str((await _ready(child, logs))["base_url"])
    finally:
        if child.stdin is not None:
            child.stdin.close()
        try:
            await asyncio.wait_for(child.wait(), STOPS_WITHIN)
        except TimeoutError:
            child.kill()
            await child.wait()


async def _ready(child: asyncio.subprocess.Process, logs: Path) -> dict[str, Any]:
    assert child.stdout is not None
    try:
        line = await asyncio.wait_for(child.stdout.readline(), STARTS_WITHIN)
        return dict(json.loads(line))
    except (TimeoutError, ValueError):
        raise CommandError(f"the simulated model does not start; see {logs / 'simulated.log'}", ExitCode.FAILED) from None
