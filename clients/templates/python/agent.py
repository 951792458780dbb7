"""What is improved, and how it is measured: put your own code in place of both functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet import ExperimentContext, Output, Sample, Score

WORDS = {"charged": "billing", "invoice": "billing", "crash": "bug", "nothing": "bug", "add": "feature_request"}


def answer(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Answer one sample under this configuration. What it prints is kept with the answer: `ratchet answers RUN` shows it."""
    known = {**WORDS, **{line: line for line in configuration["instructions"].split()}}  # call your agent here instead
    found = next((label for word, label in known.items() if word in sample.input["ticket"].lower()), "other")
    print(f"{sample.id}: {found}")
    return Output(found)


def is_right(output: Output, sample: Sample) -> Score:
    """Score one answer; proposers read the reason."""
    right = output.value == sample.expected
    return Score("label", float(right), reason=None if right else f"is {output.value!r} instead of {sample.expected!r}")
