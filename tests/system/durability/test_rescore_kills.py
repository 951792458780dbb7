"""A worker killed with -9 while a paid judge scores the answers of an earlier run: only calls in flight are made again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from clients.demo.model_server import simulated_model
from clients.embedded.stack import embedded_stack
from clients.runs.answered_run import answered_run
from store.connection import Database
from store.read.reader import StoreReader
from tests.support.graded_runs import echoing, graded
from tests.support.worker_processes import running
from workflows.model.spec.request import OptimizationRequest

pytestmark = pytest.mark.timeout(180)

CONCURRENT = 2
ITEMS = [{"id": f"s{n}", "input": {"say": f"sorry, refund number {n}"}, "expected": "no"} for n in range(12)]
EXECUTION = {"concurrent_samples": CONCURRENT, "concurrent_trials": 1}


async def test_only_judge_calls_in_flight_are_repeated(tmp_path: Path) -> None:
    async with (
        simulated_model() as server,
        embedded_stack(tmp_path, ui=False) as stack,
        running(stack, tmp_path) as parts,
    ):
        client, worker, _ = parts
        unjudged = echoing(server, ITEMS, scorers=[{"kind": "exact"}], objective="exact", execution=EXECUTION)
        first = await client.start_workflow("OptimizationWorkflow", unjudged, id="first", task_queue="optimization")
        await first.result()
        answered = server.stats()["answered"]
        database = await Database.open(stack.database_url)
        source = await answered_run(StoreReader(database), "first")
        # What the killed worker had set aside is half of it: that is lost, and says nothing of what another trial takes.
        judged = graded(server, dataset={"items": ITEMS, "splits": "none"}, execution=EXECUTION, budget={"cost": 1})
        spec = source.scored_by(OptimizationRequest.model_validate(judged)).model_dump(mode="json", by_alias=True)
        server.simulate({"latency": {"mean_ms": 400}, "model": "simulated-judge"})
        second = await client.start_workflow("OptimizationWorkflow", spec, id="second", task_queue="optimization")
        connection = await asyncpg.connect(stack.database_url)
        scored = "SELECT count(*) FROM outcomes WHERE run_id = 'second'"
        async with asyncio.timeout(60):
            while await connection.fetchval(scored) < 5:
                await asyncio.sleep(0.01)
        await worker.kill()
        assert 5 <= await connection.fetchval(scored) < len(ITEMS)
        await connection.close()
        await worker.start()
        async with asyncio.timeout(120):
            result = await second.result()
        await database.close()
        stats = server.stats()
    judgements = {key: count for key, count in stats["answered"].items() if key not in answered}
    assert {key: stats["answered"][key] for key in answered} == answered, "the target was asked again"
    assert len(judgements) == 2 * len(ITEMS)
    assert sum(judgements.values()) - len(judgements) <= CONCURRENT
    assert (result["spend"]["samples"], result["best_score"]) == (0, 1.0)
