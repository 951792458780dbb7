"""The agent of the examples, run as its README says, against the simulated model."""

from __future__ import annotations

import asyncio
import shutil

from clients.demo import simulated_model
from clients.embedded.stack import StackAddresses
from store.connection import Database
from tests.support.command_bench import Bench
from tests.support.example_modules import EXAMPLES
from tests.support.replaying import nothing_differs


async def test_a_run_improves_the_descriptions_of_an_agents_tools(bench: Bench, unserved_stack: StackAddresses) -> None:
    for file in (EXAMPLES / "agent").iterdir():
        if file.is_file():
            shutil.copy(file, bench.directory)
    async with simulated_model() as server:
        bench.servers["OPENAI_BASE_URL"] = server.base_url
        result = await asyncio.to_thread(bench.facts, "run", "spec.yaml")
        model = server.stats()
    run_id = result["run_id"]
    assert result["confirmation"]["judged"]["verdict"] == "better"
    assert result["best_score"] == 1.0
    assert result["best_configuration"]["refund_order"] != "Payments."
    database = await Database.open(unserved_stack.database_url)
    await nothing_differs(database, run_id)
    async with database.connection() as connection:
        counted = await connection.fetchrow(
            "SELECT sum(tokens)::int, sum(json_array_length(trace -> 'turns'))::int FROM answers WHERE run_id = $1", run_id
        )
        assert await connection.fetchval("SELECT count(*) FROM turns WHERE run_id = $1", run_id) == 0
    await database.close()
    assert counted is not None
    tokens, turns = counted
    assert turns == model["calls"], "each turn is one call of the model, and none was made twice"
    assert tokens == model["prompt_tokens"] + model["completion_tokens"]
    shown = await asyncio.to_thread(bench.ratchet, "answers", run_id, "--limit", "1")
    assert "Turn 1      └ " in shown.stdout
    checked = await asyncio.to_thread(bench.ratchet, "check", "spec.yaml")
    assert checked.returncode == 2, "the simulated model is gone, and check says so"
