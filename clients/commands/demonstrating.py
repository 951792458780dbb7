"""The demo: a real run on real servers; only the model is simulated."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from clients.commands.context import CommandError, Context, ExitCode
from clients.commands.ending import Ending
from clients.commands.inspecting import python_path
from clients.commands.interrupting import Interruption
from clients.commands.launching import RunOptions, run_spec
from clients.reports import Verbosity

STARTS_WITHIN = 20.0
STOPS_WITHIN = 5.0
SERVERS = ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE", "DATABASE_URL")


async def demonstrate(context: Context, verbosity: Verbosity, output: Path, interruption: Interruption) -> int:
    """Run the packaged example against the simulated model, as `ratchet run --new` would."""
    for name in SERVERS:
        os.environ.pop(name, None)  # the demo never touches servers that matter
    async with _simulated_model(context) as base_url:
        os.environ |= {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none-needed"}
        context.say(
            "SIMULATED: the model. It speaks the OpenAI protocol over HTTP on this machine and answers by rules; its prices\n"
            "are invented, nothing is paid. Real: Temporal, PostgreSQL, the worker, and every decision of the run.\n"
        )
        options = RunOptions(new=True, yes=True, ending=Ending(verbosity, output, "make dev"))
        with as_file(files("clients.simulated") / "example") as example:
            code = await run_spec(context, example / "spec.yaml", options, interruption)
        if code == ExitCode.DONE:
            context.say(
                f"Spec:        {files('clients.simulated') / 'example' / 'spec.yaml'}; `ratchet init` begins one of your own"
            )
    return code


@asynccontextmanager
async def _simulated_model(context: Context) -> AsyncIterator[str]:
    """The simulated server as a child process; it ends when its standard input is closed, however we end."""
    logs = context.home.resolve() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with (logs / "simulated.log").open("ab") as errors:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "clients.simulated",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=os.environ | {"PYTHONPATH": python_path()},
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
