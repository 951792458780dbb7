"""The worker's side of isolation: a plug-in's call in a fresh process, for code that kills or blocks the process it runs in."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from activities.targets.isolated import READY
from ratchet import ExperimentContext, Output, Sample
from workflows.model.failures import shorten

if TYPE_CHECKING:
    from activities.plugins import Plugins

LONGEST_START = 60.0
"""Seconds a fresh process may take to import the plug-in; they do not count as the call's time."""

PROGRAM = "from activities.targets.isolated import main; main()"
LARGEST_ANSWER = 64 * 1024 * 1024


class IsolatedFault(Exception):
    """The call gave no answer: it raised, took too long, or killed its process."""


class Isolation:
    """Calls plug-ins in processes of their own, a bounded number at a time."""

    def __init__(self, processes: int | None = None) -> None:
        self._places = asyncio.Semaphore(processes or max(2, os.cpu_count() or 1))

    async def call_target(
        self,
        plugins: Plugins,
        reference: str,
        configuration: Mapping[str, Any],
        sample: Sample,
        context: ExperimentContext,
        timeout: float,
    ) -> Output:
        request = {
            "kind": "target",
            "configuration": dict(configuration),
            "sample": dataclasses.asdict(sample),
            "context": {**dataclasses.asdict(context), "flags": dict(context.flags)},
        }
        answer = await self._call(plugins, reference, request, timeout)
        output = Output(**answer["answer"])
        # Measured by the child: a process that starts is not the target's latency.
        return output if output.latency_ms is not None else dataclasses.replace(output, latency_ms=answer["elapsed_ms"])

    async def call_scorer(self, plugins: Plugins, reference: str, output: Output, sample: Sample, timeout: float) -> list[Any]:
        """What the scorer returned, scores as mappings."""
        request = {"kind": "scorer", "output": dataclasses.asdict(output), "sample": dataclasses.asdict(sample)}
        answer = await self._call(plugins, reference, request, timeout)
        return list(answer["answer"])

    async def _call(self, plugins: Plugins, reference: str, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        place = {
            "reference": reference,
            "allowed": list(plugins.allowed),
            "search_path": str(plugins.search_path) if plugins.search_path is not None else None,
        }
        async with self._places:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                PROGRAM,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
                start_new_session=True,
                limit=LARGEST_ANSWER,
            )
            try:
                return await _converse(process, {**request, **place}, timeout)
            finally:
                # The whole group: what the plug-in started goes with it.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


async def _converse(process: asyncio.subprocess.Process, request: dict[str, Any], timeout: float) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode() + b"\n")
    try:
        async with asyncio.timeout(LONGEST_START):
            first = await process.stdout.readline()
    except TimeoutError:
        raise IsolatedFault(f"{request['kind']} took longer than {LONGEST_START:.0f} s to import") from None
    if first.decode().strip() != READY:
        return await _read(process, request["kind"], first)
    try:
        async with asyncio.timeout(timeout):
            line = await process.stdout.readline()
    except TimeoutError:
        raise IsolatedFault(f"took longer than the sample timeout of {timeout:g} s") from None
    return await _read(process, request["kind"], line)


async def _read(process: asyncio.subprocess.Process, kind: str, line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise IsolatedFault(f"{kind} killed its process ({_ending(await process.wait())})")
    answer: dict[str, Any] = json.loads(line)
    if "fault" in answer:
        raise IsolatedFault(shorten(answer["fault"]))
    return answer


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code {code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"
