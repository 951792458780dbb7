"""`ratchet watch` while servers die and come back, and what it says of decisions where there is no terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest

from clients.reports.text.live import PlainDisplay
from clients.runs.follow import RunFollower
from clients.runs.service.servers import Servers
from clients.runs.service.workers import Workers
from tests.support.command_bench import Bench, bench_in, ending, read_until
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Bench]:
    """A bench whose stack nobody else uses."""
    yield from bench_in(tmp_path, tmp_path / ".ratchet")


def waiting_run(bench: Bench) -> str:
    """A run whose first candidate is in flight until the gate is opened; nobody attends to it."""
    bench.write("watched", inputs=[{"n": 1, "waits": True}, {"n": 3}], stop={"max_rounds": 2})
    run_id: str = bench.facts("run", "spec.yaml", "--detach")["run_id"]
    return run_id


@contextmanager
def store_that_dies(bench: Bench) -> Iterator[None]:
    """Kill the store each time it is back, until the block ends: once alone may be mended before anybody has looked."""
    enough = Event()

    def kill_it_again() -> None:
        while not enough.wait(0.1):
            pid = json.loads((bench.home / "stack" / "state.json").read_text())["postgres"]["pid"]
            with suppress(ProcessLookupError, TypeError):  # it is not back yet
                os.kill(pid, signal.SIGKILL)

    with ThreadPoolExecutor(1) as threads:
        killing = threads.submit(kill_it_again)
        try:
            yield
        finally:
            enough.set()
        killing.result()


@pytest.mark.timeout(300)
def test_a_watcher_goes_on_when_the_store_is_killed_and_comes_back(alone: Bench) -> None:
    run_id = waiting_run(alone)
    watching = alone.attached("watch", run_id, "--verbosity", "full")
    read_until(watching, "Iteration 0")
    alone.until(alone.waits_in_round_1)
    with store_that_dies(alone):
        said = read_until(watching, "a server does not answer")
    alone.open_gate()
    code, rest = ending(watching)
    assert code == 0, said + rest
    assert (said + rest).count("Iteration 1: ") == 1 + 1  # its line, and its row in the full report
    assert "Terminated: " in rest


@pytest.mark.timeout(300)
def test_a_watcher_of_a_stack_that_somebody_stops_takes_it_over(alone: Bench) -> None:
    run_id = waiting_run(alone)
    dev = alone.attached("dev")
    read_until(dev, "Ctrl-C stops it")
    watching = alone.attached("watch", run_id)
    read_until(watching, "Iteration 0")
    alone.until(alone.waits_in_round_1)
    dev.send_signal(signal.SIGINT)
    assert ending(dev)[0] == 0
    alone.open_gate()
    code, rest = ending(watching)
    assert code == 0, rest
    assert "Terminated: " in rest


def test_decisions_are_told_line_by_line_where_everything_is_asked_for(alone: Bench) -> None:
    alone.write("told", stop={"max_rounds": 2})
    full = alone.ratchet("run", "spec.yaml", "--verbosity", "full")
    before_the_box = full.stdout.split("╔")[0]
    assert "\n  1: " in before_the_box
    assert any(word in before_the_box for word in ("kept: score", "dropped: score"))
    run_id = next(line.split()[-1] for line in full.stdout.splitlines() if line.startswith("Started"))
    again = alone.ratchet("run", "spec.yaml", "--new")
    assert "\n  1: " not in again.stdout.split("╔")[0]
    assert alone.facts("status", run_id)["in_flight"] == []


async def test_what_happened_while_lines_had_to_wait_is_told_although_nothing_happens_any_more(engines: Engines) -> None:
    handle = await engines.start(hill_spec(name="quiet", stop={"max_rounds": 500, "no_improvement": 0}))
    await handle.execute_update("pause")
    servers = Servers(engines.client, engines.database, engines.addresses.database_url, "", "default", None, embedded=False)
    async with asyncio.timeout(30):
        while (progress := await servers.reader.runs.progress(handle.id)) is None or progress.status != "paused":
            await asyncio.sleep(0.05)
    told: list[str] = []
    display = PlainDisplay(told.append)
    follower = RunFollower(servers, handle.id, display, _next_reading=time.monotonic() + 0.5)
    let_go = asyncio.Event()
    following = asyncio.create_task(follower.until_end(let_go, Workers([])))
    async with asyncio.timeout(30):
        while not any("Iteration 0" in line for line in told):
            await asyncio.sleep(0.05)
    let_go.set()
    assert await following == "let go"
    await handle.cancel()
