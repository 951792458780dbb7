"""The rule task as plug-ins, for whole runs on the real engines."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from benchmarks.quality_world import RuleWorld
from ratchet import ExperimentContext, Output, Record, Sample, Score

SEED = 1
WORLD = RuleWorld(SEED)
_random = Random(SEED)


async def answer(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Takes no time, so that all time is somebody else's."""
    noise = Random(f"{context.overrides_tag} {sample.id} {context.replicate}")
    passed, feedback = WORLD.call(configuration["prompt"], "validation", sample.input, noise)
    return Output({"passed": passed, "feedback": feedback})


def passes(output: Output, sample: Sample) -> Score:
    return Score("passes", output.value["passed"], reason=output.value["feedback"] or None)


def reflect(current: Mapping[str, Any], records: list[Record], factors: list[str]) -> Mapping[str, Any]:
    failed = [record.feedback for record in records if record.score < 1]
    return {"prompt": WORLD.reflect(current["prompt"], failed, _random)}


def items() -> list[dict[str, Any]]:
    """As many as the task has to learn from and to be scored on."""
    return [{"id": f"s{place:03}", "input": place % WORLD.task.validation} for place in range(2 * WORLD.task.validation)]
