"""Wall time over the ideal (calls × latency ÷ concurrency) with a 50 ms target, storage included.

    python -m benchmarks.efficiency [--quick]

The run's own start (checking, ingesting) and end are part of what is measured; its baseline is counted among the calls.
"""

from __future__ import annotations

import statistics

from benchmarks.figures import Bench, Figure, bench_stack, main
from benchmarks.specs import spec

LATENCY, CONCURRENT, SAMPLES, REPLICATES = 0.05, 16, 200, 3
IDEAL_PER_TRIAL = SAMPLES * REPLICATES * LATENCY / CONCURRENT


async def measure(quick: bool) -> list[Figure]:
    repeats = 1 if quick else 5
    async with bench_stack() as bench:
        await bench.run("warm-up", spec("instant", 20, rounds=2))
        one = [await ratio(bench, 1, 3, repeat) for repeat in range(repeats)]
        four = [await ratio(bench, 4, 1 if quick else 2, repeat) for repeat in range(repeats)]
    return [
        Figure("wall over ideal, one candidate a round", statistics.median(one), 1.10),
        Figure("wall over ideal, four candidates a round", statistics.median(four), 1.05),
    ]


async def ratio(bench: Bench, candidates: int, rounds: int, repeat: int) -> float:
    """From the start of the first round's trials to the end of the last one's, over the ideal for those trials."""
    run_id = f"efficiency-{candidates}-{repeat}"
    await bench.run(run_id, spec("takes_50_ms", SAMPLES, rounds, candidates, replicates=REPLICATES))
    seconds = await seconds_of_rounds(bench, run_id)
    return seconds / (IDEAL_PER_TRIAL * candidates * rounds)


async def seconds_of_rounds(bench: Bench, run_id: str) -> float:
    """As the parent's history tells: from the round's first child to the last child's end, everything between included."""
    began = ended = None
    history = await bench.client.get_workflow_handle(run_id).fetch_history()
    children = 0
    for event in history.events:
        if event.HasField("start_child_workflow_execution_initiated_event_attributes"):
            children += 1
            if children == 2:  # the first is the baseline
                began = event.event_time.ToDatetime()
        elif event.HasField("child_workflow_execution_completed_event_attributes"):
            ended = event.event_time.ToDatetime()
    assert began is not None
    assert ended is not None
    return (ended - began).total_seconds()


if __name__ == "__main__":
    main("Parallel efficiency, 200 samples × 3 replicates × 50 ms, 16 at once", measure)
