"""A judge that is throttled, and a worker killed with -9 while it waits for that judge: the target is never paid twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from clients.demo.model_server import simulated_model
from clients.embedded.stack import StackAddresses, embedded_stack
from tests.support.graded_runs import SAYINGS, graded
from tests.support.worker_processes import running

pytestmark = pytest.mark.timeout(180)


async def kept(stack: StackAddresses) -> int:
    connection = await asyncpg.connect(stack.database_url)
    try:
        if await connection.fetchval("SELECT to_regclass('answers') IS NULL"):
            return 0
        return int(await connection.fetchval("SELECT (SELECT count(*) FROM answers) - (SELECT count(*) FROM scores)"))
    finally:
        await connection.close()


async def test_an_answer_survives_its_worker_while_its_judge_is_away(tmp_path: Path) -> None:
    async with (
        simulated_model() as server,
        embedded_stack(tmp_path, ui=False) as stack,
        running(stack, tmp_path) as parts,
    ):
        client, worker, _ = parts
        server.simulate({"status": 429, "retry_after": "1", "first": 8, "model": "simulated-judge"})
        given = {**graded(server), "budget": {"cost": 10.0}}
        handle = await client.start_workflow("OptimizationWorkflow", given, id="graded", task_queue="optimization")
        async with asyncio.timeout(60):
            while await kept(stack) < len(SAYINGS):
                await asyncio.sleep(0.02)
        assert server.stats()["by_status"].get("429", 0) > 0, "the judge is not away"
        await worker.kill()
        await worker.start()
        async with asyncio.timeout(120):
            result = await handle.result()
        stats = server.stats()
        assert await kept(stack) == 0
    assert stats["repeated"] == 0, "somebody was asked twice for what he had answered"
    assert len(stats["answered"]) == 2 * 2 * len(SAYINGS)
    assert result["best_score"] == 1.0
    assert result["spend"]["samples"] == 2 * len(SAYINGS)
    assert result["spend"]["tokens"] == stats["prompt_tokens"] + stats["completion_tokens"]
    assert result["lost"]["samples"] <= 1, "no more is lost than the worker had set aside for the next call"
