"""What a trial costs beside the target's own time, over bare engines and in history, proposals of a pure optimizer included.

python -m benchmarks.overhead [--quick]

Bare engines (`benchmarks.bare_engines`) do the same work with empty bodies on the same servers. Both take turns, and a figure
is the median of the ratios of neighbours: so it tells of Ratchet, and little of the machine. Milliseconds stand beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from benchmarks.bare_engines import BareEngines, Shape, bare_engines, with_sizes_of
from benchmarks.figures import Bench, Figure, bench_stack, main
from benchmarks.processor_time import LAYERS, measured_time
from benchmarks.specs import spec

SAMPLES = 20
TARGETS = ((1, 1.4, 10.0), (4, 1.3, 8.0))
"""Candidates a round, the most over bare engines, and the most events in the parent's history."""


@dataclass(frozen=True)
class Taken:
    """What a trial took, in milliseconds, and the events it left in its parent's history."""

    wall: float
    cpu: Mapping[str, float]
    """By layer, of all processes."""
    events: float

    @property
    def cpu_in_all(self) -> float:
        return sum(self.cpu.values())


async def measure(quick: bool) -> list[Figure]:
    trials, repeats = (60, 3) if quick else (200, 7)
    figures: list[Figure] = []
    async with bench_stack() as bench, bare_engines(bench.stack.temporal_address, bench.stack.database_url) as bare:
        for candidates, most, most_events in TARGETS:
            shape = await shape_of_trials(bench, candidates, trials // candidates)
            await bare.run(replace(shape, rounds=4))
            pairs = [await pair(bench, bare, shape, repeat) for repeat in range(repeats)]
            figures += compared(pairs, f"at {candidates} candidate{'s' if candidates > 1 else ''} a round", most, most_events)
        figures += await history_bytes(bench, (20, 200) if quick else (20, 200, 2000))
    return figures


def compared(pairs: Sequence[tuple[Taken, Taken]], where: str, most: float, most_events: float) -> list[Figure]:
    """The figures of neighbours, of which bare engines are the first."""

    def median(of: Callable[[Taken, Taken], float]) -> float:
        return statistics.median(of(bare, ours) for bare, ours in pairs)

    return [
        Figure(f"a trial over bare engines {where}", median(lambda bare, ours: ours.wall / bare.wall), most),
        Figure(f"a trial {where}", median(lambda _, ours: ours.wall), unit="ms"),
        Figure(f"the same of bare engines {where}", median(lambda bare, _: bare.wall), unit="ms"),
        Figure(f"CPU of a trial over bare engines {where}", median(lambda bare, ours: ours.cpu_in_all / bare.cpu_in_all)),
        *(
            Figure(f"CPU of {whose} in {layer} {where}", statistics.median(one.cpu[layer] for one in taken), unit="ms")
            for layer in LAYERS
            for whose, taken in zip(("bare engines", "a trial"), zip(*pairs, strict=True), strict=True)
        ),
        Figure(f"parent history events per trial {where}", median(lambda _, ours: ours.events), most_events),
    ]


async def shape_of_trials(bench: Bench, candidates: int, rounds: int) -> Shape:
    """What bare engines shall do: as much, and with payloads as large, as a run that is begun for it."""
    run_id = f"shape-{candidates}"
    await bench.run(run_id, spec("instant", SAMPLES, rounds=4, candidates=candidates))
    run = await events_of(bench.client, run_id)
    return with_sizes_of(Shape(rounds, candidates, SAMPLES), run, await events_of(bench.client, last_child(run)))


async def pair(bench: Bench, bare: BareEngines, shape: Shape, repeat: int) -> tuple[Taken, Taken]:
    """The same work by bare engines and by Ratchet, one after the other."""
    run_id = f"overhead-{shape.candidates}-{repeat}"
    asked = spec("instant", SAMPLES, shape.rounds, shape.candidates)
    return (
        await taken(bench, shape, f"bare-{run_id}", lambda: bare.run(shape, f"bare-{run_id}")),
        await taken(bench, shape, run_id, lambda: bench.run(run_id, asked)),
    )


async def taken(bench: Bench, shape: Shape, run_id: str, run: Callable[[], Awaitable[Any]]) -> Taken:
    """Of the rounds alone: what a run takes to start is measured elsewhere (`benchmarks.start`)."""
    async with measured_time(bench.stack.home) as cpu:
        await run()
    events = await events_of(bench.client, run_id)
    trials = shape.rounds * shape.candidates
    assert children_of(events) == 1 + trials
    by_layer = {layer: seconds * 1000 / trials for layer, seconds in cpu.items()}
    return Taken(seconds_of_rounds(events) * 1000 / trials, by_layer, len(events) / trials)


async def events_of(client: Client, workflow_id: str) -> Sequence[HistoryEvent]:
    return (await client.get_workflow_handle(workflow_id).fetch_history()).events


def children_of(events: Sequence[HistoryEvent]) -> int:
    return sum(1 for event in events if event.HasField("start_child_workflow_execution_initiated_event_attributes"))


def last_child(events: Sequence[HistoryEvent]) -> str:
    """The id of the child that ended last."""
    ended = [event.child_workflow_execution_completed_event_attributes.workflow_execution.workflow_id for event in events]
    return [workflow_id for workflow_id in ended if workflow_id][-1]


def seconds_of_rounds(events: Sequence[HistoryEvent]) -> float:
    """As the parent's history tells: from the first round's first child to the last child's end, all between included."""
    began = [
        event.event_time.ToDatetime()
        for event in events
        if event.HasField("start_child_workflow_execution_initiated_event_attributes")
    ]
    ended = [
        event.event_time.ToDatetime()
        for event in events
        if event.HasField("child_workflow_execution_completed_event_attributes")
    ]
    return (ended[-1] - began[1]).total_seconds()  # the first is the baseline


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
    main("Overhead per trial, 20 samples, zero-latency target, embedded stack, beside bare engines", measure)
