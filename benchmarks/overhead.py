"""What a trial costs beside the target's own time, in milliseconds and in history, propose by a pure optimizer included.

python -m benchmarks.overhead [--quick]
"""

from __future__ import annotations

import statistics
import time

from benchmarks.figures import Bench, Figure, bench_stack, main
from benchmarks.specs import spec

SAMPLES = 20


async def measure(quick: bool) -> list[Figure]:
    trials, repeats = (60, 3) if quick else (200, 5)
    figures: list[Figure] = []
    async with bench_stack() as bench:
        await bench.run("warm-up", spec("instant", SAMPLES, rounds=4))
        for candidates, most_ms, most_events in ((1, 60.0, 10.0), (4, 40.0, 8.0)):
            measured = [await per_trial(bench, candidates, trials // candidates, repeat) for repeat in range(repeats)]
            milliseconds, events = (statistics.median(values) for values in zip(*measured, strict=True))
            where = f"at {candidates} candidate{'s' if candidates > 1 else ''} a round"
            figures.append(Figure(f"overhead per trial {where}", milliseconds, most_ms, "ms"))
            figures.append(Figure(f"parent history events per trial {where}", events, most_events))
        figures += await history_bytes(bench, (20, 200) if quick else (20, 200, 2000))
    return figures


async def per_trial(bench: Bench, candidates: int, rounds: int, repeat: int) -> tuple[float, float]:
    run_id = f"overhead-{candidates}-{repeat}"
    began = time.perf_counter()
    result = await bench.run(run_id, spec("instant", SAMPLES, rounds, candidates))
    wall = time.perf_counter() - began
    trials = result["counts"]["completed"]
    assert trials == 1 + candidates * rounds
    history = await bench.client.get_workflow_handle(run_id).fetch_history()
    return wall * 1000 / trials, len(history.events) / trials


async def history_bytes(bench: Bench, sizes: tuple[int, ...]) -> list[Figure]:
    """The run's history by samples per trial: relative to the smallest, it must not grow."""
    bytes_per_trial: dict[int, float] = {}
    for samples in sizes:
        bench.write_dataset(f"{samples:04}.jsonl", samples)
        run_id, rounds = f"bytes-{samples:04}", 10
        await bench.run(run_id, spec("instant", samples, rounds, dataset={"path": f"{samples:04}.jsonl"}))
        described = await bench.client.get_workflow_handle(run_id).describe()
        bytes_per_trial[samples] = described.raw_description.workflow_execution_info.history_size_bytes / (rounds + 1)
    smallest = bytes_per_trial[sizes[0]]
    return [
        Figure(f"history bytes per trial, {samples} samples over {sizes[0]}", bytes_per_trial[samples] / smallest, 1.02)
        for samples in sizes[1:]
    ]


if __name__ == "__main__":
    main("Overhead per trial, 20 samples, zero-latency target, embedded stack", measure)
