"""kill -9 while prompts are rewritten: calls of targets and of the model that writes are repeated only if in flight."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest

from clients.demo.model_server import simulated_model
from clients.embedded.stack import StackAddresses, embedded_stack
from tests.support.killed_runs import SEEDS, everything_decided
from tests.support.rewriting_runs import spec
from tests.support.worker_processes import running, until

KILLS = 4

pytestmark = pytest.mark.timeout(300)


async def _stored(stack: StackAddresses, run_id: str) -> int:
    """Answers of targets and of the model that writes."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        outcomes = await connection.fetchval("SELECT count(*) FROM outcomes WHERE run_id = $1", run_id)
        return int(outcomes) + int(await connection.fetchval("SELECT count(*) FROM model_answers WHERE run_id = $1", run_id))
    finally:
        await connection.close()


async def _answers(stack: StackAddresses, run_id: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(stack.database_url)
    try:
        query = "SELECT request_hash, round, index, answer FROM model_answers WHERE run_id = $1 ORDER BY 1"
        return [tuple(row) for row in await connection.fetch(query, run_id)]
    finally:
        await connection.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_run_that_rewrites_ends_like_an_undisturbed_one(
    seed: int, unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    run_id, random = f"rewriting-{seed}", Random(seed)
    async with simulated_model(latency_ms=40, jitter=0.5) as server:
        (tmp_path / "reference").mkdir()
        async with running(unserved_stack, tmp_path / "reference") as parts:
            client, _, _ = parts
            sent = spec(server.base_url, seed=seed)
            handle = await client.start_workflow("OptimizationWorkflow", sent, id=run_id, task_queue="optimization")
            expected_result = await handle.result()
            expected, answers = await everything_decided(unserved_stack, run_id), await _answers(unserved_stack, run_id)
        in_all = server.calls
        assert in_all == len(expected["outcomes"]) + len(answers)
        server.reset()
        async with embedded_stack(tmp_path / "disturbed", ui=False) as stack, running(stack, tmp_path / "disturbed") as parts:
            client, worker, _ = parts
            handle = await client.start_workflow("OptimizationWorkflow", sent, id=run_id, task_queue="optimization")
            in_flight = 0  # when a worker was killed, in all
            for point in sorted(random.sample(range(10, in_all - 10), KILLS)):
                await until(lambda point=point: server.calls >= point)  # type: ignore[misc]
                await worker.kill()
                await server.idle()
                in_flight = server.calls - await _stored(stack, run_id)
                await worker.start()
            async with asyncio.timeout(150):
                result = await handle.result()
            found, found_answers = await everything_decided(stack, run_id), await _answers(stack, run_id)
        extra = server.calls - in_all
    for name, rows in expected.items():
        assert found[name] == rows, f"{name} differ"
    assert found_answers == answers
    assert result["best_configuration"] == expected_result["best_configuration"]
    assert result["spend"] == pytest.approx(expected_result["spend"]), "but for the order in which costs were added"
    assert 0 <= extra <= in_flight, f"{extra} calls repeated, {in_flight} were in flight"
