"""Targets and proposers of runs over prompts. Every target answers with the prompt that it saw, byte by byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet import ExperimentContext, Output, Record, Sample

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
