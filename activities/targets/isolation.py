"""The worker's side of isolation: a target call in a fresh process, for targets that kill or block the process they run in."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from activities.plugins import Plugins
from activities.targets.faults import CandidateFault
from activities.targets.isolated import READY
from ratchet import ExperimentContext, Output, Sample
from workflows.model.failures import shorten

LONGEST_START = 60.0
"""Seconds a fresh process may take to import the plug-in; they do not count as the sample's time."""

LARGEST_ANSWER = 64 * 1024 * 1024


class Isolation:
    """Runs target calls in processes of their own, a bounded number at a time."""

    def __init__(self, processes: int | None = None) -> None:
        self._places = asyncio.Semaphore(processes or max(2, os.cpu_count() or 1))

    async def answer(
        self,
        plugins: Plugins,
        reference: str,
        configuration: Mapping[str, Any],
        sample: Sample,
        context: ExperimentContext,
        timeout: float,
    ) -> Output:
        request = {
            "allowed": list(plugins.allowed),
            "search_path": str(plugins.search_path) if plugins.search_path is not None else None,
            "reference": reference,
            "configuration": dict(configuration),
            "sample": dataclasses.asdict(sample),
            "context": {**dataclasses.asdict(context), "flags": dict(context.flags)},
        }
        async with self._places:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "activities.targets.isolated",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
                start_new_session=True,
                limit=LARGEST_ANSWER,
            )
            try:
                return await _converse(process, request, timeout)
            finally:
                # The whole group: what the target started goes with it.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


async def _converse(process: asyncio.subprocess.Process, request: dict[str, Any], timeout: float) -> Output:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode() + b"\n")
    try:
        async with asyncio.timeout(LONGEST_START):
            first = await process.stdout.readline()
    except TimeoutError:
        raise CandidateFault(f"target took longer than {LONGEST_START:.0f} s to import") from None
    if first.decode().strip() != READY:
        return await _read(process, first)
    try:
        async with asyncio.timeout(timeout):
            line = await process.stdout.readline()
    except TimeoutError:
        raise CandidateFault(f"took longer than the sample timeout of {timeout:g} s") from None
    return await _read(process, line)


async def _read(process: asyncio.subprocess.Process, line: bytes) -> Output:
    if not line.endswith(b"\n"):
        raise CandidateFault(f"target killed its process ({_ending(await process.wait())})")
    answer = json.loads(line)
    if "fault" in answer:
        raise CandidateFault(shorten(answer["fault"]))
    return Output(**answer["output"])


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code {code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"
