"""kill -9 at every stage of a batch: nothing is paid twice, nothing is lost, and what is decided is what it is without.

`RATCHET_KILL_SEEDS` sets how many seeds are tried: each kills at every stage, in another order, at other moments. Without it,
one run goes through one kill at each.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.batch_server import provider_of_batches
from tests.support.batched_provider import BatchedProvider, Plan
from tests.support.batched_runs import climbing, decided, judged_climber, judging, rows, told_of
from tests.support.engines import PLUGINS, Engines

ROOT = Path(__file__).parents[3]
SEEDS = int(os.environ.get("RATCHET_KILL_SEEDS", "0"))
PROVIDERS = ("openai", "anthropic", "google")
JUDGED = "openai"
"""Where judges are asked in batches, too: their batches are killed at as the target's are, in an order of their own."""

STAGES = {
    "before it is sent": ("before", "make"),
    "sent, and not stored": ("after", "make"),
    "while it is waited for": ("after", "look"),
    "before its results are read": ("before", "content"),
    "while its results are stored": ("after", "content"),
}
AFTER_THE_FIRST = ["sent, and not stored", "while it is waited for", "while its results are stored", "before it is sent"]
LONGEST_DELAY = 0.6
"""Seconds from a stage to the kill, at most: what follows goes on meanwhile."""

pytestmark = pytest.mark.timeout(600)


class Worker:
    """A worker process that is killed and started again."""

    def __init__(self, engines: Engines, queue: str, folder: Path, told: dict[str, str]) -> None:
        self._command = [sys.executable, "-m", "worker", "--grace", "1", "--log-file", str(folder / "worker.log")]
        self._environment = os.environ | {
            "TEMPORAL_ADDRESS": engines.addresses.temporal_address,
            "DATABASE_URL": engines.addresses.database_url,
            "RATCHET_TASK_QUEUE": queue,
            "RATCHET_PLUGINS": "plugged",
            "RATCHET_PLUGIN_PATH": str(PLUGINS),
            **told,
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(*self._command, cwd=ROOT, env=self._environment)

    async def killed(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def killed_and_started(self) -> None:
        await self.killed()
        await self.start()


class Kills:
    """Kills the worker at each of some stages, one after the other."""

    def __init__(self, server: BatchedProvider, worker: Worker, stages: list[str], random: Random) -> None:
        self._worker = worker
        self.left = list(stages)
        self._random = random
        self._going = False
        server.before = lambda name: self._at("before", name)
        server.after = lambda name: self._at("after", name)

    async def _at(self, moment: str, name: str) -> None:
        if self._going or not self.left or STAGES[self.left[0]] != (moment, name):
            return
        self._going = True
        self.left.pop(0)
        if (moment, name) == ("after", "content"):
            asyncio.get_running_loop().call_later(self._random.uniform(0, LONGEST_DELAY), self._start_kill)
        else:
            await self._kill()

    def _start_kill(self) -> None:
        self._task = asyncio.ensure_future(self._kill())

    async def _kill(self) -> None:
        await asyncio.shield(asyncio.ensure_future(self._worker.killed_and_started()))
        self._going = False


@asynccontextmanager
async def served(engines: Engines, queue: str, folder: Path, told: dict[str, str]) -> AsyncIterator[Worker]:
    worker = Worker(engines, queue, folder, told)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.killed()


def batched(server: BatchedProvider) -> dict[str, Any]:
    items = [{"id": f"s{n}", "input": n % 12, "expected": "yes"} for n in range(60)]
    spec = climbing(server, stop={"max_rounds": 1, "no_improvement": 0}, dataset={"items": items, "splits": "none"})
    return spec | {"budget": {"cost": 1000.0}}


async def killed_at(provider: str, stages: list[str], run_id: str, engines: Engines, folder: Path, random: Random) -> None:
    """One run, killed at each stage; and its twin that is asked at once."""
    async with (
        provider_of_batches(provider, judged_climber, folder) as server,
        served(engines, run_id, folder, told_of(server)) as worker,
    ):
        spec = batched(server)
        direct = await finished(engines, spec | {"execution": {"mode": "direct"}}, f"{run_id}-direct", run_id)
        server.plans = [Plan(looks=2, answers=50, ends="expired"), Plan(looks=1), Plan(looks=1), Plan(statuses={3: 500})]
        kills = Kills(server, worker, stages, random)
        result = await finished(engines, spec, run_id, run_id)
        assert not kills.left, f"the run ended before it was killed {kills.left}"
        requests = [server.custom_id_of(one) for batch in server.batches.values() for one in server.requests_of(batch)]
    assert await decided(engines, run_id) == await decided(engines, direct["optimization_id"])
    calls = direct["spend"]["samples"]
    assert len(server.paid) == server.paid.total() == calls, "a request was paid twice, or lost"
    assert len(requests) == calls + 10 + 1, "something was sent twice"
    assert result["spend"]["samples"] == calls
    assert result["spend"]["cost"] == pytest.approx(direct["spend"]["cost"] / 2)
    assert result["lost"]["samples"] == 0
    assert not await rows(engines, "budget_leases", "run_id, holder", run_id)


async def finished(engines: Engines, spec: dict[str, Any], run_id: str, queue: str) -> dict[str, Any]:
    handle = await engines.client.start_workflow("OptimizationWorkflow", spec, id=run_id, task_queue=queue)
    result: dict[str, Any] = await handle.result()
    return result


async def judged_and_killed_at(stages: list[str], run_id: str, engines: Engines, folder: Path, random: Random) -> None:
    """One baseline whose judges are asked in batches, killed at each stage after the target was asked; and its twin."""
    async with (
        provider_of_batches(JUDGED, judged_climber, folder) as server,
        served(engines, run_id, folder, told_of(server)) as worker,
    ):
        spec = judging(server, budget={"trials": 1, "cost": 1000.0})
        direct = await finished(engines, spec | {"execution": {"mode": "direct"}}, f"{run_id}-direct", run_id)
        asked = len(server.chats)
        server.plans = [Plan(), Plan(looks=1, answers=9, ends="expired"), Plan(statuses={3: 500}), Plan(looks=1)]
        server.plans += [Plan(looks=1, statuses={0: 500})]  # so that one is sent again after the kills, whatever their order is
        kills = Kills(server, worker, [], random)
        made = server.begun

        def begun(**given: Any) -> Any:
            if len(server.batches) == 1:
                kills.left += stages
            return made(**given)

        server.begun = begun  # type: ignore[method-assign]
        result = await finished(engines, spec, run_id, run_id)
        assert not kills.left, f"the run ended before it was killed {kills.left}"
    assert result["baseline_score"] == direct["baseline_score"]
    assert len(server.paid) == server.paid.total() == asked, "a verdict was paid twice, or lost"
    assert result["spend"]["cost"] == pytest.approx(direct["spend"]["cost"] / 2)
    assert result["lost"]["samples"] == 0
    assert not await rows(engines, "budget_leases", "run_id, holder", run_id)


async def test_a_kill_at_each_stage_of_a_judges_batch_costs_nothing(engines: Engines, tmp_path: Path) -> None:
    await judged_and_killed_at(AFTER_THE_FIRST, "judge-kills", engines, tmp_path, Random(1))


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_kills_at_every_stage_of_a_judges_batch_cost_nothing(seed: int, engines: Engines, tmp_path: Path) -> None:
    random = Random(f"judge {seed}")
    stages = list(AFTER_THE_FIRST)
    random.shuffle(stages)
    await judged_and_killed_at(stages, f"judge-kills-{seed}", engines, tmp_path, random)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_kill_at_each_stage_of_a_batch_costs_nothing(provider: str, engines: Engines, tmp_path: Path) -> None:
    await killed_at(provider, list(STAGES), f"batch-kills-{provider}", engines, tmp_path, Random(1))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_kills_at_every_stage_of_a_batch_cost_nothing(seed: int, provider: str, engines: Engines, tmp_path: Path) -> None:
    random = Random(f"batch {seed}")
    stages = list(STAGES)
    random.shuffle(stages)
    await killed_at(provider, stages, f"batch-kills-{provider}-{seed}", engines, tmp_path, random)
