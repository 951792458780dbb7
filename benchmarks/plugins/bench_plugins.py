"""Targets of known latency, so that the ideal wall time is known too."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ratchet import ExperimentContext, Output, Sample


async def instant(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    return Output(0.5)


async def takes_50_ms(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    await asyncio.sleep(0.05)
    return Output(0.5)


async def takes_200_ms(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    await asyncio.sleep(0.2)
    return Output(0.5)


async def takes_500_ms(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    await asyncio.sleep(0.5)
    return Output(0.5)


def noted() -> str:
    """A tool that takes no time."""
    return "noted"


def value(output: Output, sample: Sample) -> float:
    return float(output.value)
