"""Long runs: continue-as-new changes no decision, and what is carried over stays small.

python -m benchmarks.long_run [--quick]
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks.figures import Bench, Figure, bench_stack, main
from benchmarks.specs import spec


async def measure(quick: bool) -> list[Figure]:
    rounds, candidates, per_execution = (100, 2, 30) if quick else (500, 4, 100)
    async with bench_stack() as bench:
        whole = await bench.run("whole", spec("instant", 2, rounds, candidates))
        parts = spec("instant", 2, rounds, candidates)
        parts["execution"] = parts["execution"] | {"max_rounds_per_execution": per_execution}
        cut = await bench.run("cut", parts)
        carried, executions = await carried_bytes(bench, "cut")
    same = all(
        whole[name] == cut[name] for name in ("best_candidate_id", "best_score", "counts", "spend", "rounds", "stop_reason")
    )
    trials = whole["counts"]["completed"]
    return [
        Figure(f"decisions that differ over {executions} executions, {trials} trials", 0.0 if same else 1.0, 0.0),
        Figure(f"carried state at {trials} trials", carried / 1024, 256.0, "KB"),
    ]


async def carried_bytes(bench: Bench, run_id: str) -> tuple[int, int]:
    """The largest state that an execution handed to the next, and how many executions there were."""
    largest = executions = 0
    async for execution in bench.client.list_workflows(f"WorkflowId = '{run_id}'"):
        executions += 1
        history = await bench.client.get_workflow_handle(run_id, run_id=execution.run_id).fetch_history()
        for payload in history.events[0].workflow_execution_started_event_attributes.input.payloads:
            carried: dict[str, Any] | None = json.loads(payload.data).get("carried")
            if carried is not None:
                largest = max(largest, len(json.dumps(carried).encode()))
    return largest, executions


if __name__ == "__main__":
    main("Long runs through several executions", measure)
