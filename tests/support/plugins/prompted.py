"""Targets and proposers of runs over prompts. Every target answers with the prompt that it saw, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet import ExperimentContext, Output, Record, Sample, current_experiment
from ratchet.prompts import aresolve, resolve

WORD = "please"


def tells_its_prompt(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    return Output({"prompt": configuration["prompt"]}, overlay_hash=context.overlay_hash)


def echoes_another_prompt(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    return Output({"prompt": configuration["prompt"]}, overlay_hash="0" * 64)


def politer(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    """One more polite word in every section it may change."""
    return {name: f"{current[name]} {WORD}" for name in factors if name.startswith("section:")}


def politeness(output: Output, sample: Sample) -> float:
    """The more polite words, the better."""
    prompt = output.value if isinstance(output.value, str) else output.value["prompt"]
    return min(1.0, str(prompt).count(WORD) / 10)


# -- code that renders its prompt by itself, deep within, and is told nothing --------------------------------------------------


def _render(sample: Sample) -> Output:
    experiment = current_experiment()
    assert experiment is not None and experiment.prompt is not None
    mine = resolve(experiment.prompt, tag="stable")
    return Output({"prompt": mine.render(sample.input).text}, overlay_hash=mine.hash)


def renders_by_itself(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    return _render(sample)


async def renders_in_a_thread(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    return await asyncio.to_thread(_render, sample)


async def renders_in_a_task(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    return await asyncio.create_task(_render_async(sample))


async def _render_async(sample: Sample) -> Output:
    experiment = current_experiment()
    assert experiment is not None and experiment.prompt is not None
    mine = await aresolve(experiment.prompt)
    return Output({"prompt": mine.render(sample.input).text}, overlay_hash=mine.hash)


def renders_another_prompt_too(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """One that the trial is not about: it is as production has it."""
    other = resolve(str(context.flags["other"]), tag="stable")
    mine = _render(sample)
    return Output({"prompt": f"{mine.value['prompt']}\n{other.hash}"})
