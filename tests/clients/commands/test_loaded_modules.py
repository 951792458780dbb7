"""Commands that only ask start at once: they load neither what computes nor what serves."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Final

from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec

ROOT: Final = Path(__file__).parents[3]
COMPUTING: Final = {"numpy", "scipy", "optuna", "rapidfuzz", "bpe_openai", "sacrebleu", "pyarrow", "jsonschema"}
SERVING: Final = {"temporalio.worker", "temporalio.testing", "aiohttp", "openai", "boto3", "fastapi", "uvicorn", "uvloop"}
ROOMS: Final = {"workflows.run.loop", "activities.targets", "activities.shards", "activities.scorers", "clients.demo"}
"""Of our own: what the loop, the workers and the simulated model are made of."""

ASKING: Final = {"pydantic", "asyncpg", "temporalio"}
PROGRAM: Final = """
import json, sys
from clients.cli import main
code = main(sys.argv[2:])
open(sys.argv[1], "w").write(json.dumps([code, sorted(sys.modules)]))
"""


async def loaded(folder: Path, environment: dict[str, str], *arguments: str) -> set[str]:
    """Every module that a command has loaded when it ends."""
    told = folder / "modules.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", PROGRAM, str(told), *arguments),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "RATCHET_HOME": str(folder), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    code, modules = json.loads(told.read_text())
    assert code == 0, said.decode()
    return set(modules)


async def test_help_loads_nothing_that_asks_a_server(tmp_path: Path) -> None:
    modules = await loaded(tmp_path, {}, "--help")
    assert modules & (COMPUTING | SERVING | ROOMS | ASKING) == set()


async def test_what_looks_at_runs_loads_what_asks_and_no_more(tmp_path: Path, engines: Engines) -> None:
    run_id = (await engines.run(hill_spec(name="looked-at", stop={"max_rounds": 1})))["optimization_id"]
    servers = {"TEMPORAL_ADDRESS": engines.addresses.temporal_address, "DATABASE_URL": engines.addresses.database_url}
    for command in (("list",), ("list", "--json"), ("status", run_id)):
        modules = await loaded(tmp_path, servers, *command)
        assert modules >= ASKING
        assert modules & (COMPUTING | SERVING | ROOMS) == set(), command
