"""Python targets: async ones in the worker's loop, others in threads or warm processes, and in one of their own if need be."""

from __future__ import annotations

import asyncio
import copy
import inspect
import time
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any

from activities.metering import at_most, metered
from activities.plugins import Plugin, Plugins
from activities.targets.answers import output_from
from activities.targets.faults import CandidateFault, TookTooLong
from activities.targets.isolation import IsolatedFault, Isolation
from activities.targets.processes import WarmProcesses
from activities.targets.threads import PluginThreads
from ratchet import ExperimentContext, Output, Sample, in_experiment
from ratchet.experiment import PromptUnderTest
from ratchet.placeholders import Finished
from ratchet.prompts.template import PromptTemplate
from workflows.model.failures import described, shorten
from workflows.model.target import PythonTarget
from workflows.rules.overlay import NotRendered

GRACE = 0.1
"""Seconds a cancelled async target gets to clean up; one that goes on regardless is abandoned."""

MOST_HANGING_THREADS = 32
"""Beyond it, targets run in processes of their own, which can be killed."""


class PythonAnswers:
    """Answers samples with a plug-in."""

    def __init__(
        self,
        target: PythonTarget,
        plugins: Plugins,
        threads: PluginThreads,
        isolation: Isolation,
        processes: WarmProcesses,
        *,
        timeout: float,
        isolate: bool,
        template: PromptTemplate | None = None,
    ) -> None:
        self._reference = target.ref
        self._at_most = target.at_most
        self._plugins = plugins
        self._threads = threads
        self._isolation = isolation
        self._timeout = timeout
        self._isolate = isolate
        self._template = template
        # Importing code that kills its process must not happen in this one, and code that runs elsewhere need not.
        elsewhere = isolate or target.pool == "process"
        self._plugin: Plugin | None = None if elsewhere else plugins.resolve(target.ref, 3)
        warm = target.pool == "process" and not isolate
        self._pool = processes.of(plugins, target.ref, target.processes) if warm else None

    async def answer(self, configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
        async with metered(at_most(self._at_most)) as call:
            output = await self._answered(configuration, sample, context)
            call.took(output.tokens, output.cost)
            return output

    async def _answered(self, configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
        started = time.perf_counter()
        if self._plugin is None or (not self._plugin.is_async and self._threads.hanging >= MOST_HANGING_THREADS):
            output = await self._isolated(configuration, sample, context)
        else:
            # A target gets values of its own, so that one that changes them changes no other sample's.
            mine = _own(configuration)
            its_sample = replace(sample, input=_copied(sample.input), expected=_copied(sample.expected))
            with in_experiment(context, PromptUnderTest.of(self._template, configuration)):
                returned = await self._call(self._plugin, mine, its_sample, context)
            output = output_from(returned)
        if output.latency_ms is None:
            output = replace(output, latency_ms=(time.perf_counter() - started) * 1000)
        return output

    async def _isolated(self, configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
        try:
            if self._pool is not None:
                return await self._pool.answer(configuration, sample, context, self._timeout, self._template)
            return await self._isolation.call_target(
                self._plugins, self._reference, configuration, sample, context, self._timeout, self._template
            )
        except IsolatedFault as fault:
            raise CandidateFault(str(fault), kind=fault.kind) from None

    async def _call(self, plugin: Plugin, *arguments: Any) -> Any:
        if plugin.is_async:
            call = asyncio.create_task(_settled(plugin.call(*arguments)))
        else:
            call = asyncio.create_task(self._in_thread(plugin, arguments))
        try:
            finished, _ = await asyncio.wait({call}, timeout=self._timeout)
        except asyncio.CancelledError:
            await _abandon(call)
            raise
        if not finished:
            await _abandon(call)
            raise TookTooLong(f"took longer than the sample timeout of {self._timeout:g} s")
        if call.cancelled():
            raise CandidateFault("target raised CancelledError", kind="raised CancelledError")
        error, returned = call.result()
        if error is not None:
            kind = shorten(f"raised {type(error).__name__}", 80)
            raise CandidateFault(shorten(f"target raised {described(error)}"), kind=kind) from error
        return returned

    async def _in_thread(self, plugin: Plugin, arguments: tuple[Any, ...]) -> tuple[BaseException | None, Any]:
        error, returned = await _settled(self._threads.run(lambda: plugin.call(*arguments)))
        if error is None and inspect.isawaitable(returned):
            return await _settled(returned)
        return error, returned


def _own(configuration: Mapping[str, Any]) -> dict[str, Any]:
    mine = {name: _copied(value) for name, value in configuration.items()}
    return NotRendered(mine, configuration.why) if isinstance(configuration, NotRendered) else mine


def _copied(value: Any) -> Any:
    if isinstance(value, Finished):
        return str(value)  # a bare text, which every serializer knows
    return copy.deepcopy(value) if isinstance(value, dict | list) else value


async def _settled(call: Awaitable[Any]) -> tuple[BaseException | None, Any]:
    """Result or error as values. `SystemExit` out of a task would stop the whole event loop."""
    try:
        return None, await call
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error, None


async def _abandon(call: asyncio.Task[Any]) -> None:
    call.cancel()
    call.add_done_callback(_forget)
    await asyncio.wait({call}, timeout=GRACE)


def _forget(call: asyncio.Task[Any]) -> None:
    if not call.cancelled():
        call.exception()
