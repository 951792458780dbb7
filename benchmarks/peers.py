"""The same task at the same latency and concurrency through Ratchet and through the packages that do the like.

    python -m benchmarks.peers [--quick]

Every engine gets the same Python function as its target, the same function as its proposer, and 16 threads. Peers run in
environments of their own, which the first call makes in `.bench`. What a peer cannot do, or cannot do here, is said in its row.

- wall over ideal: of a whole optimization, over its calls x 50 ms / 16.
- ms per candidate: a whole optimization of 20 samples with a target that takes no time, over the candidates it tried. GEPA
  tries most of its candidates on 3 samples, Ratchet and the others all of theirs on 20.
- calls of budget: what was paid, and what was declared.
- after kill -9: the calls of a run that was killed half-way and started again, over those of the undisturbed run; the same
  candidates or others; and `uncounted`, the calls that were made and are in no count of the engine's.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.figures import Figure, main
from benchmarks.peers_drivers.driving import Job
from benchmarks.peers_drivers.task import calls, candidates
from benchmarks.peers_environments import DSPY, GEPA, OPIK, Peer, PeerProcess, PeerUnavailable, install, opik_backend
from benchmarks.peers_ratchet import Ratchet, begun, ratchet
from benchmarks.peers_rows import ENGINES, Engine, Row, as_facts, figures, table

LATENCY, CONCURRENCY, SMALL = 0.05, 16, 20


@dataclass(frozen=True)
class Scale:
    samples: int
    budget: int
    """Target calls; the rest beyond whole trials of Ratchet's is room for those that a kill loses, which its budget counts."""
    candidates: int
    kills: tuple[float, ...]
    """Where runs are killed, as shares of their calls."""
    repeats: int


QUICK = Scale(samples=48, budget=330, candidates=30, kills=(0.5,), repeats=1)
FULL = Scale(samples=96, budget=1040, candidates=120, kills=(0.3, 0.5, 0.7), repeats=3)
FEWER = 6
"""The slow and the costly get so many times less to do."""


class Comparison:
    """Runs jobs through one engine after another, each with a log and a directory of its own."""

    def __init__(self, scale: Scale, ours: Ratchet, folder: Path, environment: dict[str, str]) -> None:
        self.scale, self.ours, self.folder, self.environment = scale, ours, folder, environment
        self.processes: dict[Peer, PeerProcess] = {}
        self._numbers = iter(range(10_000))

    def job(self, engine: Engine, **changes: Any) -> Job:
        place = self.folder / str(next(self._numbers))
        scale = self.scale
        plain = Job(engine.variant, scale.samples, CONCURRENCY, LATENCY, scale.budget, f"{place}.calls", str(place))
        return replace(plain, **changes)

    async def start(self, peer: Peer) -> PeerProcess:
        return await PeerProcess.start(peer, self.folder / f"{peer.package}-{next(self._numbers)}.err", self.environment)

    async def do(self, engine: Engine, job: Job) -> dict[str, Any]:
        if engine.peer is None:
            finished = await self.ours.run(job)
            return {"wall": finished.wall, "declared": job.budget, "counted": finished.result["spend"]["samples"]}
        if not engine.slow:
            return await self.processes[engine.peer].run(job)
        process = await self.start(engine.peer)
        try:
            return await process.run(job)
        finally:
            await process.kill()

    async def time(self, row: Row) -> None:
        """The undisturbed runs: wall over ideal, calls and budget."""
        ratios = []
        for _ in range(1 if row.engine.slow else self.scale.repeats):
            budget = self.scale.budget // (FEWER if row.engine.slow else 1)
            job = self.job(row.engine, budget=max(budget, self.scale.samples))
            done = await self.do(row.engine, job)
            row.undisturbed, row.made, row.declared = Path(job.log), calls(Path(job.log)), done["declared"]
            ratios.append(done["wall"] / (row.made * LATENCY / CONCURRENCY))
        row.wall = statistics.median(ratios)

    async def time_overhead(self, row: Row) -> None:
        wanted = self.scale.candidates // (FEWER if row.engine.costly else 1)
        measured = []
        for _ in range(self.scale.repeats):
            job = self.job(row.engine, samples=SMALL, latency=0.0, budget=wanted * SMALL)
            done = await self.do(row.engine, job)
            measured.append(done["wall"] * 1000 / len(candidates(Path(job.log))))
        row.per_candidate = statistics.median(measured)

    async def kill(self, row: Row) -> None:
        """Kill it at some point, let it go on, and count."""
        assert row.made is not None
        assert row.undisturbed is not None
        tried = candidates(row.undisturbed)
        row.same = row.engine.searches or None
        uncounted: list[int] = []
        for share in self.scale.kills:
            job = self.job(row.engine)
            counted = await self._killed(row, job, int(row.made * share))
            row.killed = (*row.killed, calls(Path(job.log)))
            row.same = row.same and candidates(Path(job.log)) == tried
            if counted is not None and not row.engine.cached:
                uncounted.append(row.killed[-1] - counted)
        row.uncounted = round(statistics.mean(uncounted)) if uncounted else None

    async def _killed(self, row: Row, job: Job, at: int) -> int | None:
        if row.engine.peer is None:
            finished = await self.ours.run(job, kill_at=at)
            counted = int(finished.result["spend"]["samples"])
            beyond = calls(Path(job.log)) - counted - finished.in_flight
            row.beyond_in_flight = max(beyond, row.beyond_in_flight or 0)
            row.idle = max(finished.idle, row.idle or 0.0)
            return counted
        first, second = self.processes[row.engine.peer], await self.start(row.engine.peer)
        self.processes[row.engine.peer] = second
        try:
            running = asyncio.create_task(first.run(job))
            await begun(job, at)
        finally:
            await first.kill()
        await asyncio.gather(running, return_exceptions=True)
        counted_by_peer: int | None = (await second.run(job))["counted"]
        return counted_by_peer

    async def end(self) -> None:
        for process in self.processes.values():
            await process.kill()


async def compare(scale: Scale) -> list[Row]:
    """Time one engine after another on a quiet machine; then count, which may be done side by side."""
    rows = [Row(engine) for engine in ENGINES]
    async with AsyncExitStack() as exits:
        comparison = await exits.enter_async_context(comparing(scale, rows))
        for row in rows:
            if not row.engine.slow:
                await attempt(row, comparison.time)
                await attempt(row, comparison.time_overhead)
        await asyncio.gather(*(attempt(row, comparison.time) for row in rows if row.engine.slow), in_turn(rows, comparison))
    return rows


async def in_turn(rows: list[Row], comparison: Comparison) -> None:
    """Kill one engine of each package at a time: imports of several would take each other's processor."""
    groups: dict[Peer | None, list[Row]] = {}
    for row in rows:
        if row.engine.resumes:
            groups.setdefault(row.engine.peer, []).append(row)

    async def one_after_another(group: list[Row]) -> None:
        for row in group:
            await attempt(row, comparison.kill)

    await asyncio.gather(*(one_after_another(group) for group in groups.values()))


async def attempt(row: Row, measure: Callable[[Row], Awaitable[None]]) -> None:
    """What a peer cannot do is part of its row. Ratchet has no such excuse."""
    if row.problem is not None:
        return
    try:
        await measure(row)
    except (PeerUnavailable, TimeoutError) as error:
        if row.engine.peer is None:
            raise
        row.problem = f"{measure.__name__}: {error}" if str(error) else f"{measure.__name__}: no progress"


@asynccontextmanager
async def comparing(scale: Scale, rows: list[Row]) -> AsyncIterator[Comparison]:
    unavailable = installed()
    async with AsyncExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-peers-")))
        server = await exits.enter_async_context(opik_backend(folder / "opik-backend.err"))
        comparison = Comparison(scale, await exits.enter_async_context(ratchet()), folder, offline(folder, server))
        exits.push_async_callback(comparison.end)
        for peer in (GEPA, DSPY, OPIK):
            if peer in unavailable:
                continue
            try:
                comparison.processes[peer] = await comparison.start(peer)
            except PeerUnavailable as error:
                unavailable[peer] = str(error)
        for row in rows:
            row.problem = unavailable.get(row.engine.peer) if row.engine.peer else None
        for variant in ("one", "four"):
            await comparison.do(ENGINES[0], comparison.job(ENGINES[0], variant=variant, samples=SMALL, latency=0.0, budget=100))
        yield comparison


def installed() -> dict[Peer, str]:
    """Make the environments; which could not be made, and why."""
    unavailable = {}
    for peer in (GEPA, DSPY, OPIK):
        try:
            install(peer)
        except PeerUnavailable as error:
            unavailable[peer] = str(error)
    return unavailable


def offline(folder: Path, opik_server: str) -> dict[str, str]:
    """The peers' environment: nothing of the user's is read or written, and nothing is looked for on the network."""
    return {
        "HOME": str(folder),
        "DSPY_CACHEDIR": str(folder / "dspy"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPIK_URL_OVERRIDE": opik_server,
        "OPIK_SENTRY_ENABLE": "false",
    }


async def measure(quick: bool) -> list[Figure]:
    scale = QUICK if quick else FULL
    before = os.getloadavg()
    rows = await compare(scale)
    title = f"{scale.samples} samples, {LATENCY * 1000:g} ms a call, {CONCURRENCY} at once, {scale.budget} calls"
    Console(width=190).print(table(title, rows))
    loads = [f"{load:.1f}" for load in (*before[:1], *os.getloadavg()[:1])]
    idle = max(row.idle or 0.0 for row in rows)
    print(f"load average {loads[0]} before and {loads[1]} after, on {os.cpu_count()} processors")
    print(f"ratchet goes on by itself {idle:.1f} s after the kill, with a new worker; peers are started again by hand")
    for row in rows:
        print(json.dumps(as_facts(row)))
    return figures(rows)


if __name__ == "__main__":
    main("Ratchet and its peers", measure)
