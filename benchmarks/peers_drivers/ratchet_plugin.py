"""The task of the comparison as Ratchet's plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.peers_drivers import task
from ratchet import ExperimentContext, Output, Record, Sample


def answer(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    text = "_".join(str(configuration[name]) for name in sorted(configuration) if name not in {"latency", "log"})
    return Output(task.answer(f"Instruction {text}", str(sample.input), configuration["latency"], configuration["log"]))


def value(output: Output, sample: Sample) -> float:
    return float(output.value)


def propose(current: Mapping[str, Any], records: list[Record], factors: list[str]) -> Mapping[str, Any]:
    seen = [record.score for record in records]
    return {name: task.propose(current[name], seen).removeprefix("Instruction ") for name in factors}
