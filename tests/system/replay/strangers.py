"""Those who answer for others while histories are recorded: a worker of somebody else, the reference runner, and providers of
batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from activities.settings import ACTIVITY_QUEUES, RUNNER_URLS
from tests.support.allowed import allow
from tests.support.batch_server import Plan, batch_server
from tests.support.batched_runs import judged_climber
from tests.support.example_modules import example
from tests.system.replay.paths import BATCHES, HELD_BATCHES, RUNNER


@asynccontextmanager
async def strangers(client: Client, folder: Path) -> AsyncIterator[dict[str, str]]:
    """Serve all; gives their URLs by what stands for them in specs."""
    failed: set[str] = set()

    @activity.defn(name="hill_elsewhere")
    async def hill_elsewhere(call: dict[str, Any]) -> Any:
        wishes = call["execution_params"]
        for sample in call.get("samples") or [call["sample"]]:
            if wishes.get("hang") == sample["id"]:
                await asyncio.sleep(60)
            if wishes.get("fail_first") and sample["id"] not in failed:
                failed.add(sample["id"])
                raise ConnectionError("not yet")
        answer = {"value": {"height": 1 - abs(call["configuration"]["x"] - 700) / 1000}}
        return [answer for _ in call["samples"]] if "samples" in call else answer

    @activity.defn(name="height_elsewhere")
    async def height_elsewhere(call: dict[str, Any]) -> float:
        return float(call["output"]["value"]["height"])

    @activity.defn(name="climb_elsewhere")
    async def climb_elsewhere(call: dict[str, Any]) -> dict[str, Any]:
        return {"values": {"x": call["configuration"]["x"] + 100}}

    served = [hill_elsewhere, height_elsewhere, climb_elsewhere]
    runners = example("external-runner/runner.py")
    async with (
        Worker(client, task_queue="strangers", activities=served, graceful_shutdown_timeout=timedelta(0)),
        runners.serving(runners.Runner(client)) as url,
        batch_server(judged_climber, folder) as batches,
        batch_server(judged_climber, folder / "held") as held,
    ):
        batches.plans = [Plan(looks=1, statuses={2: 500})]
        held.plans = [Plan(held=True, answers=3)]
        allow(RUNNER_URLS, url)
        allow(ACTIVITY_QUEUES, "strangers")
        yield {RUNNER: url, BATCHES: batches.url, HELD_BATCHES: held.url}
