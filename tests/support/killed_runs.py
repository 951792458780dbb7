"""One run twice: undisturbed, and with its worker and servers killed at random. Both must end alike, whatever the optimizer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from clients.embedded.stack import StackAddresses, embedded_stack
from tests.system.durability.test_kills import calls_begun, disturb, everything_decided, running


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
    folder: Path,
    module: str = "worker",
    read: Callable[[StackAddresses, str], Awaitable[Any]] = nothing_more,
) -> Ended:
    """Every row, the winner, the spend and what is `read` beside them are the same, and only what was in flight was asked
    again."""
    reference, disturbed = folder / "reference", folder / "disturbed"
    async with embedded_stack(reference, ui=False) as stack, running(stack, reference, module) as parts:
        client, _, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", spec, id=run_id, task_queue="optimization")
        expected_result = await handle.result()
        expected = await everything_decided(stack, run_id)
        expected_more = await read(stack, run_id)
        in_all = calls_begun(calls)
    async with embedded_stack(disturbed, ui=False) as stack, running(stack, disturbed, module) as parts:
        client, worker, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", spec, id=run_id, task_queue="optimization")
        killed = await disturb(stack, worker, calls, run_id, Random(seed), in_all)
        async with asyncio.timeout(120):
            result = await handle.result()
        found = await everything_decided(stack, run_id)
        assert await read(stack, run_id) == expected_more
        extra = calls_begun(calls) - in_all
    for name, rows in expected.items():
        assert found[name] == rows, f"{name} differ after killing {killed.victims}"
    assert result["best_configuration"] == expected_result["best_configuration"]
    assert result["spend"] == expected_result["spend"]
    assert 0 <= extra <= killed.in_flight, f"{extra} calls repeated, {killed.in_flight} in flight, {killed.victims}"
    return Ended(expected_result, result, in_all, expected_more)
