"""Targets for kills that are aimed at calls under way: every call leaves a line when it begins and another when it ends."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any

from ratchet import ExperimentContext, Output, Sample

SECONDS = 0.12


async def walks(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """In an event loop."""
    line = _line(sample, context)
    note(f"start {line}")
    await asyncio.sleep(SECONDS)
    note(f"end {line}")
    return _height(configuration, sample)


def walks_in_a_thread(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """In a thread, or in a process."""
    line = _line(sample, context)
    note(f"start {line}")
    time.sleep(SECONDS)
    note(f"end {line}")
    return _height(configuration, sample)


def height(output: Output, sample: Sample) -> float:
    return float(output.value["height"])


def note(line: str) -> None:
    descriptor = os.open(os.environ["RATCHET_TEST_CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def _line(sample: Sample, context: ExperimentContext) -> str:
    return f"{context.overrides_tag[:16]} {sample.id} {context.replicate}"


def _height(configuration: Mapping[str, Any], sample: Sample) -> Output:
    return Output({"height": 1 - abs(configuration["x"] - 700) / 1000 + len(sample.id) / 1000}, tokens=10, cost=0.001)
