"""Python callables as tools: in threads, loops or warm processes, and in a process of their own where they may kill one."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from activities.agents import ToolCall, ToolDefinition, ToolFailed, described
from activities.plugins.isolation import IsolatedFault
from activities.plugins.loops import LoopBlocked, TimeIsOver
from activities.plugins.threads import RaisedCancelledError
from activities.secret_texts import without_secrets
from activities.targets.answers import usable_value
from activities.targets.faults import CandidateFault
from activities.targets.python import MOST_HANGING_THREADS
from ratchet import in_experiment
from ratchet._text.placeholders import Filling
from workflows.model.failures import described as described_error
from workflows.model.failures import shorten
from workflows.model.spec.targets.agent_tools import PythonTool

if TYPE_CHECKING:
    from activities.plugins.loader import Plugin
    from activities.targets import TargetTools

KIND = "tool"


class CalledPython:
    """Calls one callable with the arguments of the model."""

    def __init__(self, tool: PythonTool, tools: TargetTools, *, isolate: bool) -> None:
        self._tool = tool
        self._tools = tools
        # Importing code that kills its process must not happen in this one, and code that runs elsewhere need not.
        elsewhere = isolate or tool.pool == "process"
        self._plugin: Plugin | None = None if elsewhere else tools.plugins.resolve(tool.ref, 0)
        # A model calls its tools often: one that may kill its process gets a new one where it did, and not for each call.
        here = tool.pool != "process" and tools.plugins.of_program(tool.ref)
        self._pool = None if here else tools.processes.of(tools.plugins, tool.ref, tool.processes, KIND)

    @classmethod
    def of(cls, tool: Any, tools: TargetTools, *, isolate: bool) -> Self:
        """Make it for a tool of a spec."""
        return cls(tool, tools, isolate=isolate)

    async def definitions(self, filling: Filling) -> Sequence[ToolDefinition]:
        return [described(self._tool, filling)]

    async def call(self, call: ToolCall) -> Any:
        plugin = self._plugin
        try:
            if plugin is None or self._must_run_elsewhere(plugin):
                return await self._isolated(call)
            try:
                return await self._here(plugin, call)
            except LoopBlocked:
                return await self._isolated(call)
        except IsolatedFault as fault:
            raise ToolFailed(str(fault)) from None
        except CandidateFault as fault:
            raise ToolFailed(f"the tool's result is unusable: {fault}") from None

    def _must_run_elsewhere(self, plugin: Plugin) -> bool:
        """What hangs in this process cannot be ended here, and what blocks the loop of others holds them up."""
        calls = self._tools.calls
        if plugin.is_async:
            return calls.loops.of(plugin.reference).blocks
        return calls.threads.hanging >= MOST_HANGING_THREADS

    async def _here(self, plugin: Plugin, call: ToolCall) -> Any:
        offered = {"sample": call.sample, "context": call.experiment, "idempotency_key": call.key}
        named = {**copy.deepcopy(call.arguments), **plugin.taken(offered)}
        try:
            with call.context.printed.heard(), in_experiment(call.experiment):
                return usable_value(await self._in_time(plugin, named, call.timeout))
        except (asyncio.CancelledError, LoopBlocked, CandidateFault):
            raise
        except (TimeIsOver, TimeoutError):
            raise ToolFailed(f"took longer than {call.timeout:g} s") from None
        except RaisedCancelledError:
            raise ToolFailed("raised CancelledError") from None
        except BaseException as error:
            raise ToolFailed(without_secrets(shorten(f"raised {described_error(error)}"))) from error

    async def _in_time(self, plugin: Plugin, named: dict[str, Any], timeout: float) -> Any:
        calls = self._tools.calls
        if plugin.is_async:
            return await calls.loops.of(plugin.reference).run(lambda: plugin.call(**named), timeout)
        async with asyncio.timeout(timeout):
            return await calls.call(plugin, **named)

    async def _isolated(self, call: ToolCall) -> Any:
        request = {
            "arguments": call.arguments,
            "sample": dataclasses.asdict(call.sample),
            "context": {**dataclasses.asdict(call.experiment), "flags": dict(call.experiment.flags)},
            "key": call.key,
        }
        plugins, printed = self._tools.plugins, call.context.printed
        if self._pool is not None:
            repeated = not call.never_repeated
            return (await self._pool.call(request, call.timeout, printed=printed, repeated=repeated))["answer"]
        return await self._tools.isolation.call(plugins, self._tool.ref, KIND, request, call.timeout, printed)
