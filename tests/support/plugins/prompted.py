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


# -- a prompt that says more than it must --------------------------------------------------------------------------------------

NEEDED = ("one label", "billing", "by its number")


def tells_prompt_and_tools(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    tools = " ".join(tool["function"]["description"] for tool in configuration["tools"])
    return Output({"prompt": f"{configuration['prompt']} {tools} {sample.id}"}, overlay_hash=context.overlay_hash)


def needed(output: Output, sample: Sample) -> bool:
    """Whether nothing is missing that the answer depends on."""
    return all(words in output.value["prompt"] for words in NEEDED)


def shortest_and_shorter(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    """Two edits of each section: its first three words, which is too little for some, and its first sentence."""
    return {name: [" ".join(current[name].split()[:3]), current[name].partition(". ")[0] + "."] for name in factors}
