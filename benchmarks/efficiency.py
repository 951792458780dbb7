"""Wall time over the ideal (calls × latency ÷ concurrency) with a 50 ms target, storage included, beside bare engines.

    python -m benchmarks.efficiency [--quick]

Bare engines (`benchmarks.bare_engines`) wait as long, as often and as many at once on the same servers, and store as many
answers. They take turns with Ratchet, whose target is 1.05, or within 3 % of bare engines where these need more by themselves.
The run's start and end, and its baseline, are not part of what is measured.
"""

from __future__ import annotations

import statistics

from benchmarks.bare_engines import BareEngines, Shape, bare_engines
from benchmarks.figures import Bench, Figure, bench_stack, main
from benchmarks.overhead import events_of, seconds_of_rounds
from benchmarks.specs import spec

LATENCY, CONCURRENT, SAMPLES, REPLICATES = 0.05, 16, 200, 3
IDEAL_PER_TRIAL = SAMPLES * REPLICATES * LATENCY / CONCURRENT
MOST, MOST_OVER_BARE = 1.05, 1.03


async def measure(quick: bool) -> list[Figure]:
    repeats = 1 if quick else 5
    figures: list[Figure] = []
    async with bench_stack() as bench, bare_engines(bench.stack.temporal_address, bench.stack.database_url) as bare:
        await bench.run("warm-up", spec("instant", 20, rounds=2))
        await bare.run(Shape(rounds=2))
        for candidates, rounds in ((1, 3), (4, 1 if quick else 2)):
            shape = Shape(rounds, candidates, SAMPLES * REPLICATES, CONCURRENT, LATENCY)
            pairs = [await pair(bench, bare, shape, repeat) for repeat in range(repeats)]
            its, ours = (statistics.median(values) for values in zip(*pairs, strict=True))
            where = f"{'one candidate' if candidates == 1 else 'four candidates'} a round"
            figures.append(Figure(f"wall over ideal of bare engines, {where}", its))
            figures.append(Figure(f"wall over ideal, {where}", ours, most_beside(its)))
    return figures


def most_beside(bare: float, most: float = MOST) -> float:
    """What Ratchet may need where bare engines need so much."""
    return max(most, MOST_OVER_BARE * bare)


async def pair(bench: Bench, bare: BareEngines, shape: Shape, repeat: int) -> tuple[float, float]:
    """From the start of the first round's trials to the end of the last one's, over the ideal for those trials."""
    run_id = f"efficiency-{shape.candidates}-{repeat}"
    await bare.run(shape, f"bare-{run_id}")
    await bench.run(run_id, spec("takes_50_ms", SAMPLES, shape.rounds, shape.candidates, replicates=REPLICATES))
    ideal = IDEAL_PER_TRIAL * shape.candidates * shape.rounds
    its, ours = [seconds_of_rounds(await events_of(bench.client, name)) / ideal for name in (f"bare-{run_id}", run_id)]
    return its, ours


if __name__ == "__main__":
    main("Parallel efficiency, 200 samples × 3 replicates × 50 ms, 16 at once, beside bare engines", measure)
