"""One run twice: undisturbed, and with its worker and servers killed at random. Both must end alike, whatever the optimizer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import asyncpg

from clients.embedded.stack import StackAddresses, embedded_stack, stack_state
from tests.support.worker_processes import WorkerProcess, calls_begun, outcomes_stored, repeated, running, until


@dataclass(frozen=True, slots=True)
class Ended:
    """What both runs came to."""

    undisturbed: dict[str, Any]
    disturbed: dict[str, Any]
    calls: int
    """Of the undisturbed one."""
    more: Any
    """What else was read of it."""


async def nothing_more(stack: StackAddresses, run_id: str) -> None:
    """What is read of a run beside everything that it decided."""


async def ended_alike(
    spec: dict[str, Any],
    run_id: str,
    seed: int,
    unserved: StackAddresses,
    folder: Path,
    module: str = "worker",
    read: Callable[[StackAddresses, str], Awaitable[Any]] = nothing_more,
) -> Ended:
    """Every row, the winner, the spend and what is `read` beside them are the same, and only what was in flight was asked
    again. The undisturbed run takes place on a stack that nobody serves, the other on one of its own."""
    reference, disturbed = folder / "reference", folder / "disturbed"
    reference.mkdir()
    async with running(unserved, reference, module) as parts:
        client, _, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", spec, id=run_id, task_queue="optimization")
        expected_result = await handle.result()
        expected = await everything_decided(unserved, run_id)
        expected_more = await read(unserved, run_id)
        in_all = calls_begun(calls)
    async with embedded_stack(disturbed, ui=False) as stack, running(stack, disturbed, module) as parts:
        client, worker, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", spec, id=run_id, task_queue="optimization")
        killed = await disturb(stack, worker, calls, run_id, Random(seed), in_all)
        async with asyncio.timeout(200):
            result = await handle.result()
        found = await everything_decided(stack, run_id)
        assert await read(stack, run_id) == expected_more
        extra = calls_begun(calls) - in_all
    for name, rows in expected.items():
        assert found[name] == rows, f"{name} differ after killing {killed.victims}"
    assert result["best_configuration"] == expected_result["best_configuration"]
    assert result["spend"] == expected_result["spend"]
    assert 0 <= extra <= killed.in_flight, f"{extra} calls repeated, {killed.in_flight} in flight, {killed.victims}"
    return Ended(_without_other_runs(expected_result), _without_other_runs(result), in_all, expected_more)


def _without_other_runs(result: dict[str, Any]) -> dict[str, Any]:
    """What a run came to, but for what others before it on the same stack had searched."""
    confirmation = result["confirmation"]
    if confirmation is None:
        return result
    return result | {"confirmation": {name: told for name, told in confirmation.items() if name != "searched"}}


SEEDS = range(int(os.environ.get("RATCHET_KILL_SEEDS", "1")))
KILLS_PER_SEED = 4
ROUNDS, SAMPLES, REPLICATES, CANDIDATES = 8, 30, 2, 2
CALLS = (1 + ROUNDS * CANDIDATES) * SAMPLES * REPLICATES


@dataclass
class Killed:
    """What a disturbed run went through."""

    victims: list[str] = field(default_factory=list)
    in_flight: int = 0
    """Calls that had begun, and whose answers were not in the store yet, when the worker was killed."""


async def disturb(
    stack: StackAddresses, worker: WorkerProcess, calls: Path, run_id: str, random: Random, calls_in_all: int = CALLS
) -> Killed:
    """Kill something each time the run has come so far."""
    killed = Killed()
    for point in sorted(random.sample(range(20, calls_in_all - 40), KILLS_PER_SEED)):
        await until(lambda point=point: calls_begun(calls) >= point)  # type: ignore[misc]
        victim = random.choice(["worker", "temporal", "postgres"])
        killed.victims.append(victim)
        if victim == "worker":
            await worker.kill()
            killed.in_flight += calls_begun(calls) - repeated(calls) - await outcomes_stored(stack, run_id)
            await worker.start()
            continue
        state = stack_state(stack.home)
        pid = state.temporal_pid if victim == "temporal" else state.postgres_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        def replaced(victim: str = victim, pid: int = pid) -> bool:
            now = stack_state(stack.home)
            return (now.temporal_pid if victim == "temporal" else now.postgres_pid) not in {pid, None}

        await until(replaced)
    return killed


def spec(seed: int) -> dict[str, Any]:
    return {
        "name": "killed",
        "configuration": {"x": {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 9000, "step": 7}},
        "target": {"kind": "python", "ref": "plugged:logged_hill"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(SAMPLES)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"proposer": {"kind": "step"}, "candidates_per_round": CANDIDATES},
        "replicates": REPLICATES,
        "stop": {"max_rounds": ROUNDS, "no_improvement": 0},
        "execution": {"concurrent_samples": 16},
        "seed": seed,
    }


async def everything_decided(stack: StackAddresses, run_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows that must not depend on what was killed; times and run ids are left out."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        queries = {
            "trials": "SELECT candidate_id, purpose, round, status, score, sample_means, coverage, paid_samples FROM trials",
            "candidates": "SELECT candidate_id, config_hash, round, parent_candidate_ids FROM candidates",
            "rounds": "SELECT round, best_score, best_so_far, stop_reason, stopped FROM rounds",
            "outcomes": "SELECT config_hash, item_hash, replicate, status, scores::text, output FROM outcomes",
            "events": "SELECT event_key, type FROM events",
            "run": "SELECT status, stop_reason, best_score, baseline_score FROM runs",
        }
        return {
            name: sorted((tuple(row) for row in await connection.fetch(f"{query} WHERE run_id = $1", run_id)), key=repr)
            for name, query in queries.items()
        }
    finally:
        await connection.close()
