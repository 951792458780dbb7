"""The paths through the workflows whose histories are recorded: what is started, and what is done to it.

`python -m tests.replay.record` runs each of them on the embedded stack and writes the histories anew; until 1.0 that is how a
change of the workflows' commands is made, in the same commit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

HISTORIES = Path(__file__).parent / "histories"


def spec(**parts: Any) -> dict[str, Any]:
    """A small run; keyword arguments replace parts of it."""
    return {
        "name": "recorded",
        "configuration": {"x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}},
        "target": {"kind": "python", "ref": "plugged:hill"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(6)]},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"proposer": {"kind": "step"}},
        "stop": {"max_rounds": 3, "no_improvement": 0},
        "seed": 7,
    } | parts


Run = Callable[[Client, WorkflowHandle[Any, Any]], Awaitable[None]]


async def to_the_end(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    with contextlib.suppress(WorkflowFailureError):
        await handle.result()


async def stopped_early(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    await _in_round(handle, 2)
    await handle.signal("stop_early", "recorded")
    await to_the_end(client, handle)


async def cancelled(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    await _in_round(handle, 2)
    await handle.cancel()
    await to_the_end(client, handle)


async def paused_adjusted_and_resumed(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    await _in_round(handle, 1)
    await handle.execute_update("pause")
    await _until(handle, lambda shown: shown["status"] == "paused")
    await handle.execute_update("adjust", {"max_rounds": 12, "concurrent_samples": 4})
    await handle.execute_update("propose", {"configuration": {"x": 700}})
    await handle.execute_update("resume")
    await to_the_end(client, handle)


async def _in_round(handle: WorkflowHandle[Any, Any], number: int) -> None:
    await _until(handle, lambda shown: shown["round"] >= number)


async def _until(handle: WorkflowHandle[Any, Any], reached: Callable[[dict[str, Any]], bool]) -> None:
    async with asyncio.timeout(30):
        while not reached(await handle.query("progress")):
            await asyncio.sleep(0.01)


@dataclass(frozen=True)
class RecordedPath:
    """One path: its spec, what is done while it runs, and how many trials' histories are kept with it."""

    name: str
    spec: dict[str, Any]
    run: Run = to_the_end


ENDLESS = {"max_rounds": 100_000, "no_improvement": 0}

PATHS = (
    RecordedPath("completed", spec()),
    RecordedPath("wide_rounds", spec(optimizer={"proposer": {"kind": "step"}, "candidates_per_round": 4})),
    RecordedPath(
        "several_shards", spec(dataset={"items": [{"input": n} for n in range(40)]}, execution={"samples_per_shard": 10})
    ),
    RecordedPath("stopped_early", spec(stop=ENDLESS), stopped_early),
    RecordedPath("cancelled", spec(stop=ENDLESS), cancelled),
    RecordedPath("paused_adjusted_resumed", spec(stop=ENDLESS), paused_adjusted_and_resumed),
    RecordedPath("failed_baseline", spec(target={"kind": "python", "ref": "plugged:raises"})),
    RecordedPath("refused_spec", spec(objective={"metric": "depth"}, scorers=[{"kind": "exact"}])),
    RecordedPath("continued_as_new", spec(stop={"max_rounds": 5}, execution={"max_rounds_per_execution": 2})),
    RecordedPath("python_proposer", spec(optimizer={"proposer": {"kind": "python", "ref": "plugged:climb"}})),
    RecordedPath("converged", spec(optimizer={"proposer": {"kind": "python", "ref": "plugged:wild_proposer"}}, stop=ENDLESS)),
    RecordedPath("confirmed", spec(dataset={**spec()["dataset"], "splits": {"validation": 0.5, "test": 0.5}})),
    RecordedPath("deadline", spec(budget={"wall_time": "10m"})),
    RecordedPath("time_is_over", spec(target={"kind": "python", "ref": "plugged:hangs"}, budget={"wall_time": "1s"})),
    RecordedPath("scoring_failed", spec(scorers=[{"kind": "python", "name": "height", "ref": "plugged:nan_score"}])),
)
