"""The evaluation worker inside a program's own process, beside the worker that the command line starts: the same target, the
same samples, the same servers.

    python -m benchmarks.in_process [--quick]

Wall over ideal is of one trial, from its first call to its last stored answer; the ideal is calls × latency ÷ concurrency. The
two take turns, and the figure is the ratio of their medians.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import yaml

import ratchet
from benchmarks.figures import PLUGINS, Figure, main
from benchmarks.processes import ROOT, BenchServers, bench_servers

CONCURRENT, MILLISECONDS = 16, 50
SAMPLES = 500


async def measure(quick: bool) -> list[Figure]:
    repeats, replicates = (3, 1) if quick else (7, 4)
    async with bench_servers() as servers:
        home = servers.stack.home
        spec_file = servers.folder / "spec.yaml"
        pairs = []
        try:
            for number in range(-1, repeats):  # the first of each warms up
                by_program = await walled(servers, await in_program(home, number, replicates), replicates)
                by_command = await walled(servers, await by_command_line(home, spec_file, number, replicates), replicates)
                pairs += [(by_program, by_command)] if number >= 0 else []
        finally:
            await asyncio.to_thread(ratchet.close)
    mine, its = (statistics.median(values) for values in zip(*pairs, strict=True))
    calls = f"{CONCURRENT} × {MILLISECONDS} ms, {SAMPLES * replicates} calls"
    return [
        Figure(f"wall over ideal in a program's own process, {calls}", mine),
        Figure(f"wall over ideal of the command line, {calls}", its),
        Figure("a program's own process over the command line", mine / its, 1.05),
    ]


def asked(number: int, replicates: int) -> dict[str, Any]:
    return {
        "configuration": {"x": number},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(SAMPLES)], "splits": "none"},
        "objective": {"metric": "value"},
        "optimizer": "none",
        "replicates": replicates,
        "execution": {"concurrent_samples": CONCURRENT},
    }


async def in_program(home: Path, number: int, replicates: int) -> str:
    if str(PLUGINS) not in sys.path:
        sys.path.insert(0, str(PLUGINS))
    plugins = importlib.import_module("bench_plugins")
    scorer = {"name": "value", "ref": plugins.value}
    run = await asyncio.to_thread(
        lambda: ratchet.measure(
            asked(number, replicates), name="program", target=plugins.takes_50_ms, scorer=scorer, home=home, progress=False
        )
    )
    return run.id


async def by_command_line(home: Path, spec_file: Path, number: int, replicates: int) -> str:
    plugins = {
        "target": {"kind": "python", "ref": "bench_plugins:takes_50_ms"},
        "scorers": [{"kind": "python", "name": "value", "ref": "bench_plugins:value"}],
    }
    write_spec(spec_file, {"name": f"command-{number}", **asked(number, replicates), **plugins})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ratchet", "run", str(spec_file), "--yes", "--json", "--home", str(home)),
        cwd=spec_file.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    told, _ = await process.communicate()
    return str(yaml.safe_load(told)["run_id"])


def write_spec(spec_file: Path, spec: dict[str, Any]) -> None:
    """The spec, with its plug-ins beside it."""
    spec_file.write_text(yaml.safe_dump(spec))
    (spec_file.parent / "bench_plugins.py").write_bytes((PLUGINS / "bench_plugins.py").read_bytes())


async def walled(servers: BenchServers, run_id: str, replicates: int) -> float:
    wall, answered = await servers.fetchrow(
        "SELECT extract(epoch FROM max(created_at) - min(created_at - latency_ms * interval '1 ms'))::float8, count(*)"
        " FROM outcomes WHERE run_id = $1",
        run_id,
    )
    assert answered == SAMPLES * replicates
    return float(wall / (math.ceil(answered / CONCURRENT) * MILLISECONDS / 1000))


if __name__ == "__main__":
    main("The worker in a program's own process, 16 × 50 ms, embedded stack", measure)
