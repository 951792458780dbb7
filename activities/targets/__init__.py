"""Targets: what is run on a sample. A new kind is one file here and one line in the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from activities.plugins.isolation import Isolation
from activities.plugins.processes import WarmProcesses
from ratchet import ExperimentContext, Output, Sample

# Kinds are imported when they are used: an isolated target starts in a process of its own, which needs none of the clients.
if TYPE_CHECKING:
    from activities.endpoints.call_context import CallContext
    from activities.endpoints.chat_models import ChatModels
    from activities.plugins.calls import PluginCalls
    from activities.plugins.loader import Plugins
    from activities.targets.http import HttpEndpoints
    from workflows.model.suite import EvaluationSuite


class Answering(Protocol):
    """A target, ready to answer samples. Raises what `faults` names, and returns outputs in canonical form."""

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output: ...


@dataclass(frozen=True)
class TargetTools:
    """What targets share within a worker process."""

    models: ChatModels
    plugins: Plugins
    calls: PluginCalls
    isolation: Isolation = field(default_factory=Isolation)
    processes: WarmProcesses = field(default_factory=WarmProcesses)
    http: HttpEndpoints | None = None


def _chat(suite: EvaluationSuite, tools: TargetTools, timeout: float, isolate: bool) -> Answering:
    from activities.targets.chat import ChatAnswers

    assert suite.target.kind == "chat"
    return ChatAnswers(suite.target, tools.models, suite.prices, timeout=timeout)


def _python(suite: EvaluationSuite, tools: TargetTools, timeout: float, isolate: bool) -> Answering:
    from activities.targets.python import PythonAnswers

    assert suite.target.kind == "python"
    return PythonAnswers(
        suite.target,
        tools.plugins,
        tools.calls,
        tools.isolation,
        tools.processes,
        timeout=timeout,
        isolate=isolate,
        template=suite.prompt,
    )


def _http(suite: EvaluationSuite, tools: TargetTools, timeout: float, isolate: bool) -> Answering:
    from activities.targets.http import HttpAnswers

    assert suite.target.kind == "http" and tools.http is not None
    return HttpAnswers(suite.target, tools.http, timeout=timeout)


_REGISTRY: dict[str, Callable[[EvaluationSuite, TargetTools, float, bool], Answering]] = {
    "chat": _chat,
    "http": _http,
    "python": _python,
}


def target_for(suite: EvaluationSuite, tools: TargetTools, *, isolate: bool) -> Answering:
    """The suite's target. `isolate` runs code that may kill its process in processes of its own."""
    return _REGISTRY[suite.target.kind](suite, tools, suite.sample_timeout.total_seconds(), isolate)
