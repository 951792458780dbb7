"""The worker's side of isolation: plug-ins in processes of their own, for code that kills or blocks the one it runs in."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from activities.plugins.threads import PluginThreads
from activities.secret_texts import without_secrets
from activities.settings import environment_of_children
from ratchet import ExperimentContext, Output, Sample
from ratchet._processes.child_process import PipedProcess, begin_piped
from workflows.model.failures import shorten

if TYPE_CHECKING:
    from activities.plugins.loader import Plugins
    from activities.plugins.printed_text import PrintedText
    from ratchet.prompts.template import PromptTemplate

LONGEST_START = 60.0
"""Seconds a fresh process may take to import the plug-in; they do not count as the call's time."""

LONGEST_END = 1.0
"""Seconds from the end of a process's output to its own."""

PROGRAM = f"from {__package__}.isolated import main; main()"
READY = "ready"
"""What a process says once it has imported its plug-in."""

LARGEST_ANSWER = 64 * 1024 * 1024


class IsolatedFault(Exception):
    """The call gave no answer: it raised, took too long, or killed its process. `kind` is the class of the error."""

    def __init__(
        self, message: str, kind: str, *, leaves_the_process_usable: bool = False, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.traceback = ""
        """Where its code raised, a line for each frame."""
        self.details = dict(details or {})
        self.leaves_the_process_usable = leaves_the_process_usable


class ProcessDied(IsolatedFault):
    """The process ended in the middle of the call."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "process died")


class PluginProcess:
    """A process that has imported one plug-in and answers one call at a time."""

    def __init__(self, process: PipedProcess, kind: str) -> None:
        self._process = process
        self._kind = kind

    @classmethod
    async def started(cls, plugins: Plugins, reference: str, kind: str) -> PluginProcess:
        process = await begin_piped(
            sys.executable, "-P", "-c", PROGRAM, env=environment_of_children(), longest_line=LARGEST_ANSWER
        )
        started = cls(process, kind)
        try:
            await started._import(plugins, reference)
        except BaseException:
            await started.kill()
            raise
        return started

    async def _import(self, plugins: Plugins, reference: str) -> None:
        self._send({"kind": self._kind, **plugins.import_elsewhere(reference)})
        try:
            async with asyncio.timeout(LONGEST_START):
                line = await self._line()
        except TimeoutError:
            raise IsolatedFault(f"{self._kind} took longer than {LONGEST_START:.0f} s to import", "timeout") from None
        if line.decode().strip() != READY:
            await self._understood(line)

    async def call(self, request: dict[str, Any], timeout: float | None, printed: PrintedText | None = None) -> dict[str, Any]:
        """The answer to one call; `printed` is told what was printed meanwhile."""
        self._send(request)
        try:
            async with asyncio.timeout(timeout):
                line = await self._line()
        except TimeoutError:
            whose = "the sample timeout of " if self._kind in ("target", "scorer") else ""
            raise IsolatedFault(f"took longer than {whose}{timeout:g} s", "timeout") from None
        return await self._understood(line, printed)

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def kill(self) -> None:
        """The whole group: what the plug-in started goes with it."""
        self._process.kill()
        await self._process.wait()

    async def _exit_code(self) -> int:
        """One that only closed its output would be waited for in vain."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_END):
                return await self._process.wait()
        await self.kill()
        return await self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _line(self) -> bytes:
        try:
            return await self._process.stdout.readline()
        except ValueError:  # it wrote more than fits
            return b""

    async def _understood(self, line: bytes, printed: PrintedText | None = None) -> dict[str, Any]:
        if not line.endswith(b"\n"):
            raise ProcessDied(f"{self._kind} killed its process ({ending(await self._exit_code())})")
        return _understood(line, printed)


def _understood(line: bytes | str, printed: PrintedText | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(line)
    if printed is not None and answer.get("printed"):
        printed.add(answer["printed"])
    if "fault" in answer:
        kind = shorten(answer.get("kind", "import failed"), 80)
        told = without_secrets(shorten(answer["fault"]))
        fault = IsolatedFault(told, kind, leaves_the_process_usable="kind" in answer, details=answer.get("details"))
        fault.traceback = without_secrets(answer.get("traceback", ""))
        raise fault
    return answer


class Isolation:
    """Calls plug-ins in a fresh process each, a bounded number at a time."""

    def __init__(self, processes: int | None = None) -> None:
        self._places = asyncio.Semaphore(processes or max(2, os.cpu_count() or 1))
        self._threads = PluginThreads()

    async def call_target(
        self,
        plugins: Plugins,
        reference: str,
        configuration: Mapping[str, Any],
        sample: Sample,
        context: ExperimentContext,
        timeout: float,
        template: PromptTemplate | None = None,
        begins: Callable[[], None] = lambda: None,
        printed: PrintedText | None = None,
    ) -> Output:
        request = target_request(configuration, sample, context, template)
        return target_output(await self._call(plugins, reference, "target", request, timeout, begins, printed))

    async def call_scorer(
        self,
        plugins: Plugins,
        reference: str,
        output: Output,
        sample: Sample,
        timeout: float,
        printed: PrintedText | None = None,
    ) -> list[Any]:
        """What the scorer returned, scores as mappings."""
        request = {"output": dataclasses.asdict(output), "sample": dataclasses.asdict(sample)}
        answer = await self._call(plugins, reference, "scorer", request, timeout, printed=printed)
        return list(answer["answer"])

    async def call(
        self,
        plugins: Plugins,
        reference: str,
        kind: str,
        request: dict[str, Any],
        timeout: float | None = None,
        printed: PrintedText | None = None,
    ) -> Any:
        """What a plug-in of another kind answered: what `isolated` writes for it. Whoever calls may have a limit of his own."""
        return (await self._call(plugins, reference, kind, request, timeout, printed=printed))["answer"]

    async def _call(
        self,
        plugins: Plugins,
        reference: str,
        kind: str,
        request: dict[str, Any],
        timeout: float | None,
        begins: Callable[[], None] = lambda: None,
        printed: PrintedText | None = None,
    ) -> dict[str, Any]:
        async with self._places:
            if plugins.of_program(reference):
                return await self._called_here(plugins, reference, kind, request, timeout, begins, printed)
            process = await PluginProcess.started(plugins, reference, kind)
            try:
                begins()
                return await process.call(request, timeout, printed)
            finally:
                await process.kill()

    async def _called_here(
        self,
        plugins: Plugins,
        reference: str,
        kind: str,
        request: dict[str, Any],
        timeout: float | None,
        begins: Callable[[], None],
        printed: PrintedText | None,
    ) -> dict[str, Any]:
        """A function of the program is called where it is, in a thread of its own: what it kills is its own program."""
        from activities.plugins.isolated import answer_here

        begins()
        try:
            async with asyncio.timeout(timeout):
                line = await self._threads.run(lambda: answer_here(plugins, reference, kind, request))
                return _understood(line, printed)
        except TimeoutError:
            raise IsolatedFault(f"took longer than {timeout:g} s", "timeout") from None


def target_request(
    configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext, template: PromptTemplate | None = None
) -> dict[str, Any]:
    """`template` is that of the prompt under test, which code there resolves as this trial has it."""
    return {
        "template": None if template is None else template.model_dump_json(by_alias=True),
        "configuration": dict(configuration),
        "not_rendered": getattr(configuration, "why", None),
        "sample": dataclasses.asdict(sample),
        "context": {**dataclasses.asdict(context), "flags": dict(context.flags)},
    }


def target_output(answer: dict[str, Any]) -> Output:
    """As measured by the child: a process that starts, or waits for its turn, is not the target's latency."""
    output = Output(**answer["answer"])
    return output if output.latency_ms is not None else dataclasses.replace(output, latency_ms=answer["elapsed_ms"])


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code {code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"
