"""Python targets: async ones in a loop of theirs, others in threads or warm processes, and in one of their own if need be."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from activities.budget.metering import at_most, metered
from activities.endpoints.call_context import CallContext
from activities.endpoints.retry_policy import Patience, patiently
from activities.observation.call_observation import CallFacts, CallObservation
from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugin, Plugins
from activities.plugins.loops import LoopBlocked, TimeIsOver
from activities.plugins.printed_text import PrintedText
from activities.plugins.processes import WarmProcesses
from activities.plugins.threads import RaisedCancelledError
from activities.plugins.tracebacks import traceback_of
from activities.secret_texts import without_secrets
from activities.targets.answers import output_from
from activities.targets.attached_files import with_contents
from activities.targets.faults import CandidateFault, TookTooLong, Unreachable
from activities.targets.patience_requests import TRY_AGAIN, patience_asked_for
from ratchet import ExperimentContext, Output, Sample, TryAgain, in_experiment
from ratchet._files import with_opened_files
from ratchet._text.placeholders import Finished
from ratchet.experiment import PromptUnderTest
from ratchet.prompts.template import PromptTemplate
from workflows.model.failures import described, shorten
from workflows.model.spec.targets.python import PythonTarget
from workflows.rules.overlay import NotRendered

if TYPE_CHECKING:
    from activities.endpoints.gate import Gates
    from activities.targets import TargetTools
    from store.read.sample_files import FileReader
    from workflows.model.suite import EvaluationSuite

MOST_HANGING_THREADS = 32
"""Beyond it, targets run in processes of their own, which can be killed."""


PYTHON = "python"
"""Stands for the base URL of code of the user's, at the gates."""


class PythonAnswers:
    """Answers samples with a plug-in."""

    def __init__(
        self,
        target: PythonTarget,
        plugins: Plugins,
        calls: PluginCalls,
        isolation: Isolation,
        processes: WarmProcesses,
        *,
        timeout: float,
        isolate: bool,
        gates: Gates,
        patience: Patience,
        observation: CallObservation,
        template: PromptTemplate | None = None,
        files: FileReader | None = None,
    ) -> None:
        self._files = files
        self._observation = observation
        self._reference = target.ref
        self._at_most = target.at_most
        self._plugins = plugins
        self._calls = calls
        self._isolation = isolation
        self._processes = processes
        self._timeout = timeout
        self._isolate = isolate
        self._gates = gates
        # One that takes too long is slow by itself: it says so where somebody else is.
        self._patience = replace(patience, slow_attempts=1)
        self._template = template
        # Importing code that kills its process must not happen in this one, and code that runs elsewhere need not.
        elsewhere = isolate or target.pool == "process"
        self._plugin: Plugin | None = None if elsewhere else plugins.resolve(target.ref, 3)
        warm = target.pool == "process" and (plugins.of_program(target.ref) or not isolate)
        self._pool = processes.of(plugins, target.ref, target.processes) if warm else None

    @classmethod
    def of(cls, suite: EvaluationSuite, tools: TargetTools, *, isolate: bool) -> Self:
        """Make it for a suite."""
        target: Any = suite.target
        timeout = suite.sample_timeout.total_seconds()
        return cls(
            target,
            tools.plugins,
            tools.calls,
            tools.isolation,
            tools.processes,
            timeout=timeout,
            isolate=isolate,
            gates=tools.models.gates,
            patience=tools.models.patience,
            observation=tools.models.observation,
            template=suite.prompt,
            files=tools.files,
        )

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output:
        """Code that never asks for patience stands before no gate, which would space out its calls."""
        sample = await with_contents(self._files, sample, configuration)
        facts = CallFacts("python", context.caller.run_id, plugin=self._reference)

        async def called() -> Output:
            async with metered(context, at_most(context.meter, self._at_most)) as call:
                with self._observation.of(facts) as seen:
                    output = await self._answered(configuration, sample, experiment, call.begins, context.printed)
                    seen.took(output.tokens, output.cost)
                call.took(output.tokens, output.cost)
                return output

        gate = self._gates.known(PYTHON, self._reference)
        if gate is not None:
            return await patiently(gate, called, self._patience, context)
        try:
            return await called()
        except Unreachable as first:
            met = [first]

        async def called_again() -> Output:
            if met:
                raise met.pop()
            return await called()

        return await patiently(self._gates.at(PYTHON, self._reference), called_again, self._patience, context)

    async def _answered(
        self,
        configuration: Mapping[str, Any],
        sample: Sample,
        context: ExperimentContext,
        begins: Callable[[], None],
        printed: PrintedText,
    ) -> Output:
        started = time.perf_counter()
        if self._plugin is None or self._must_run_elsewhere(self._plugin):
            output = await self._isolated(configuration, sample, context, begins, printed)
        else:
            try:
                with printed.heard():
                    output = await self._here(_noted(self._plugin, begins), configuration, sample, context)
            except LoopBlocked:
                output = await self._isolated(configuration, sample, context, begins, printed)
        if output.latency_ms is None:
            output = replace(output, latency_ms=(time.perf_counter() - started) * 1000)
        return output

    def _must_run_elsewhere(self, plugin: Plugin) -> bool:
        """What hangs in this process cannot be ended here, and what blocks the loop of others holds them up."""
        if plugin.is_async:
            return self._calls.loops.of(plugin.reference).blocks
        return self._calls.threads.hanging >= MOST_HANGING_THREADS

    async def _here(
        self, plugin: Plugin, configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext
    ) -> Output:
        # A target gets values of its own, so that one that changes them changes no other sample's.
        mine = _own(configuration, sample.files)
        its_sample = replace(sample, input=_copied(sample.input), expected=_copied(sample.expected))
        try:
            with in_experiment(context, PromptUnderTest.of(self._template, configuration)):
                return output_from(await self._in_time(plugin, mine, its_sample, context))
        except TryAgain as again:
            raise patience_asked_for(str(again), vars(again)) from again
        except RaisedCancelledError:
            raise CandidateFault("target raised CancelledError", kind="raised CancelledError") from None
        except TimeIsOver as over:
            told = f"took longer than the sample timeout of {self._timeout:g} s"
            raise TookTooLong(f"{told}; {over}" if str(over) else told) from None
        except (asyncio.CancelledError, LoopBlocked, CandidateFault):
            raise
        except BaseException as error:
            kind = shorten(f"raised {type(error).__name__}", 80)
            fault = CandidateFault(without_secrets(shorten(f"target raised {described(error)}")), kind=kind)
            fault.traceback = traceback_of(error)
            raise fault from error

    async def _in_time(self, plugin: Plugin, *arguments: Any) -> Any:
        if plugin.is_async:
            return await self._calls.loops.of(plugin.reference).run(lambda: plugin.call(*arguments), self._timeout)
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await self._calls.call(plugin, *arguments)
        except TimeoutError:
            if limit.expired():
                raise TimeIsOver from None
            raise

    async def _isolated(
        self,
        configuration: Mapping[str, Any],
        sample: Sample,
        context: ExperimentContext,
        begins: Callable[[], None],
        printed: PrintedText,
    ) -> Output:
        blocks = self._plugin is not None and self._plugin.is_async and self._pool is None  # its loop, but it kills nothing
        if blocks and not self._plugins.of_program(self._reference):
            self._pool = self._processes.of(self._plugins, self._reference, None)
        try:
            if self._pool is not None:
                return await self._pool.answer(configuration, sample, context, self._timeout, self._template, begins, printed)
            return await self._isolation.call_target(
                self._plugins, self._reference, configuration, sample, context, self._timeout, self._template, begins, printed
            )
        except IsolatedFault as isolated:
            if TRY_AGAIN in isolated.details:
                raise patience_asked_for(str(isolated), isolated.details[TRY_AGAIN]) from None
            fault = CandidateFault(str(isolated), kind=isolated.kind)
            fault.traceback = isolated.traceback
            raise fault from None


def _noted(plugin: Plugin, begins: Callable[[], None]) -> Plugin:
    """The same plug-in, which says when its code is entered, in whichever thread that is."""

    def entered(*arguments: Any, **named: Any) -> Any:
        begins()
        return plugin.call(*arguments, **named)

    return replace(plugin, call=entered)


def _own(configuration: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    mine = with_opened_files({name: _copied(value) for name, value in configuration.items()}, files)
    return NotRendered(mine, configuration.why) if isinstance(configuration, NotRendered) else mine


def _copied(value: Any) -> Any:
    if isinstance(value, Finished):
        return str(value)  # a bare text, which every serializer knows
    return copy.deepcopy(value) if isinstance(value, dict | list) else value
