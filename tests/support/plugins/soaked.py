"""Targets of a soak: those of the other plug-ins; each call leaves a line of JSON when it begins, and another when it ends."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ratchet import ExperimentContext, Output, Record, Sample

if TYPE_CHECKING:
    from tests.support.plugins import plugged, ruled
else:  # as they are found where plug-ins lie
    import plugged
    import ruled

SHORTEST, LONGEST = 0.05, 0.25

Configuration = Mapping[str, Any]
Inner = Callable[[Configuration, Sample, ExperimentContext], Awaitable[Output]]


async def hill(configuration: Configuration, sample: Sample, context: ExperimentContext) -> Output:
    return await _told(plugged.hill, configuration, sample, context)


def hill_in_a_thread(configuration: Configuration, sample: Sample, context: ExperimentContext) -> Output:
    """In a thread, or in a process."""
    call = note("begun", uuid.uuid4().hex, sample, context)
    time.sleep(_seconds(sample, context))
    output = asyncio.run(plugged.hill(configuration, sample, context))
    note("answered", call, sample, context)
    return output


async def oven(configuration: Configuration, sample: Sample, context: ExperimentContext) -> Output:
    return await _told(plugged.oven, configuration, sample, context)


async def pupil(configuration: Configuration, sample: Sample, context: ExperimentContext) -> Output:
    return await _told(plugged.pupil, configuration, sample, context)


async def dungeon(configuration: Configuration, sample: Sample, context: ExperimentContext) -> Output:
    return await _told(plugged.dungeon, configuration, sample, context)


async def coin(configuration: Configuration, sample: Sample, context: ExperimentContext) -> Output:
    return await _told(plugged.coin, configuration, sample, context)


async def vocabulary(configuration: Configuration, sample: Sample, context: ExperimentContext) -> Output:
    return await _told(plugged.vocabulary, configuration, sample, context)


async def follows_rules(configuration: Configuration, sample: Sample, context: ExperimentContext) -> Output:
    return await _told(ruled.follows_rules, configuration, sample, context)


def pay(amount: int, sample: Sample, context: ExperimentContext) -> str:
    """A tool of an agent, with effects: each call is one."""
    note("effect", uuid.uuid4().hex, sample, context, amount=amount)
    time.sleep(SHORTEST)
    return f"paid {amount}"


def height(output: Output, sample: Sample) -> float:
    return float(output.value["height"])


def points(output: Output, sample: Sample) -> float:
    return float(output.value["points"])


def dungeon_failures(records: list[Record]) -> Mapping[str, int]:
    return plugged.dungeon_failures(records)


async def _told(inner: Inner, configuration: Configuration, sample: Sample, context: ExperimentContext) -> Output:
    call = note("begun", uuid.uuid4().hex, sample, context)
    await asyncio.sleep(_seconds(sample, context))
    output = await inner(configuration, sample, context)
    note("answered", call, sample, context)
    return output


def _seconds(sample: Sample, context: ExperimentContext) -> float:
    """The same for the same call, so that a soak can be repeated."""
    share = plugged.hash_of(f"{context.overrides_tag[:8]} {sample.id} {context.replicate}") % 100 / 100
    return SHORTEST + (LONGEST - SHORTEST) * share


def note(what: str, call: str, sample: Sample, context: ExperimentContext, **more: Any) -> str:
    line = {
        **more,
        "call": call,
        "what": what,
        "at": time.clock_gettime(time.CLOCK_MONOTONIC),
        "pid": os.getpid(),
        "run": context.run_id,
        "trial": context.id,
        "config": context.overrides_tag,
        "item": sample.id,
        "replicate": context.replicate,
    }
    descriptor = os.open(os.environ["RATCHET_SOAK_CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{json.dumps(line)}\n".encode())
    finally:
        os.close(descriptor)
    return call
