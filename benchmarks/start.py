"""From `ratchet run` to the first call of its target: with servers that have to be made first, and with servers that run.

    python -m benchmarks.start [--quick]

Cold, the folder of the run is empty: both servers are made and started, the tables are migrated, a worker is started. Warm,
`ratchet dev` serves already. The target is a chat model on this machine, which notes when it is asked first. Where a cold start
goes is read off the logs of the supervisor and of the worker; beside it stand what the two servers take alone, and the CPU of
all processes that the command has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml
from aiohttp import web

from benchmarks.figures import Figure, main
from benchmarks.processes import ROOT
from clients.embedded.home import Home
from clients.embedded.stack import embedded_stack

MOST_COLD_SECONDS: Final = 4.0
MOST_WARM_SECONDS: Final = 1.0
SERVES: Final = "serving"


class Model:
    """A model that answers at once and knows when it was asked first."""

    def __init__(self) -> None:
        self.first: float | None = None

    async def answer(self, request: web.Request) -> web.Response:
        """One chat completion."""
        await request.read()
        self.first = self.first or time.time()
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return web.json_response({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage})


@dataclass(frozen=True)
class Started:
    """Moments of one start, in seconds after the command began, and the CPU that the command and its worker took in all."""

    first_call: float
    supervised: float | None
    served: float | None
    cpu: float


async def measure(quick: bool) -> list[Figure]:
    colds, warms = (2, 3) if quick else (5, 9)
    async with asked_model() as (model, url):
        with tempfile.TemporaryDirectory(prefix="ratchet-bench-") as folder:
            alone = [await servers_alone(Path(folder) / f"alone-{number}") for number in range(colds)]
            cold = [await started(Path(folder) / f"cold-{number}", model, url, number) for number in range(colds)]
            home = Path(folder) / "warm"
            async with served_by_dev(home):
                warm = [await started(home, model, url, number) for number in range(-1, warms)][1:]
    return figures_of(alone, cold, warm)


def figures_of(alone: list[float], cold: list[Started], warm: list[Started]) -> list[Figure]:
    """Medians, and where a cold start goes."""
    supervised = statistics.median(one.supervised or 0.0 for one in cold)
    served = statistics.median(one.served or 0.0 for one in cold)
    first = statistics.median(one.first_call for one in cold)
    return [
        Figure("cold start to the first call", first, MOST_COLD_SECONDS, "s"),
        Figure("of that, until the servers are being started: the command's imports, and its check", supervised, unit="s"),
        Figure("of that, until the worker serves: servers, migrations, the worker's imports", served - supervised, unit="s"),
        Figure("of that, until the call: preparing, the first workflow tasks", first - served, unit="s"),
        Figure("the two servers alone, made and started", statistics.median(alone), unit="s"),
        Figure(
            "CPU of the command, its worker and the servers, cold, to their end",
            statistics.median(one.cpu for one in cold),
            unit="s",
        ),
        Figure("warm start to the first call", statistics.median(one.first_call for one in warm), MOST_WARM_SECONDS, "s"),
        Figure(
            "CPU of the command and its worker, warm, to the run's end", statistics.median(one.cpu for one in warm), unit="s"
        ),
    ]


@asynccontextmanager
async def asked_model() -> AsyncIterator[tuple[Model, str]]:
    model, app = Model(), web.Application()
    app.router.add_post("/v1/chat/completions", model.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield model, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def servers_alone(home: Path) -> float:
    """Seconds until both servers answer that are made in an empty folder."""
    began = time.perf_counter()
    async with embedded_stack(home, ui=False):
        return time.perf_counter() - began


async def started(home: Path, model: Model, url: str, number: int) -> Started:
    """One run of its own, by the command line."""
    spec_file = home.parent / f"{home.name}-{number}.yaml"
    spec_file.write_text(yaml.safe_dump(spec_of(url, number)))
    model.first = None
    before, began = os.times(), time.time()
    process = await asyncio.create_subprocess_exec(*command("run", str(spec_file), "--yes"), **options(home))
    code = await process.wait()
    after = os.times()
    if code or model.first is None:
        raise RuntimeError(f"`ratchet run` ended with {code}, first call at {model.first}; see {home}")
    return Started(
        model.first - began,
        *(
            None if moment is None else moment - began
            for moment in (moment_supervised(home, began), moment_served(home, began))
        ),
        after.children_user + after.children_system - before.children_user - before.children_system,
    )


def spec_of(url: str, number: int) -> dict[str, Any]:
    """Four calls; each number is a run of its own."""
    messages = [{"role": "system", "content": "{{factors.system}}"}, {"role": "user", "content": "{{input.text}}"}]
    return {
        "name": "start",
        "configuration": {"system": {"value": f"Repeat {number}.", "change": "text"}},
        "target": {"kind": "chat", "model": "instant", "base_url": url, "messages": messages},
        "dataset": {
            "items": [{"id": f"s{n}", "input": {"text": f"t{n}"}, "expected": "x"} for n in range(4)],
            "splits": "none",
        },
        "objective": {"metric": "exact"},
        "optimizer": "none",
    }


def command(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "ratchet", *arguments)


def options(home: Path) -> dict[str, Any]:
    return {
        "cwd": home.parent,
        "env": os.environ | {"PYTHONPATH": str(ROOT), "RATCHET_HOME": str(home), "OPENAI_API_KEY": "none"},
        "stdin": asyncio.subprocess.DEVNULL,
        "stdout": asyncio.subprocess.DEVNULL,
        "stderr": asyncio.subprocess.DEVNULL,
    }


@asynccontextmanager
async def served_by_dev(home: Path) -> AsyncIterator[None]:
    """`ratchet dev` in a folder, as long as the block lasts."""
    began = time.time()
    process = await asyncio.create_subprocess_exec(*command("dev"), **options(home))
    try:
        async with asyncio.timeout(120):
            while moment_served(home, began) is None:
                if process.returncode is not None:
                    raise RuntimeError(f"`ratchet dev` ended with {process.returncode}")
                await asyncio.sleep(0.1)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.wait()


def moment_supervised(home: Path, since: float) -> float | None:
    """When the supervisor began that starts the servers, as its log tells."""
    moments = (datetime.fromisoformat(line.split(" ", 1)[0]).timestamp() for line in lines_of(home, "supervisor"))
    return next((moment for moment in moments if moment >= since - 0.01), None)


def moment_served(home: Path, since: float) -> float | None:
    """When a worker said that it serves, as its log tells."""
    for line in lines_of(home, "worker"):
        told = json.loads(line)
        moment = datetime.fromisoformat(told["timestamp"]).timestamp()
        if told["event"] == SERVES and moment >= since:
            return moment
    return None


def lines_of(home: Path, log: str) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):
        yield from Home.at(home).log(log).read_text().splitlines()


if __name__ == "__main__":
    main("From `ratchet run` to the first call, embedded stack", measure)
