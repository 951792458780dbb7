"""Targets: what is run on a sample. Each kind names the class here that answers for it (`Target.answered_by`)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from activities.plugins.isolation import Isolation
from activities.plugins.processes import WarmProcesses
from ratchet import ExperimentContext, Output, Sample

# Kinds are imported when they are used: an isolated target starts in a process of its own, which needs none of the clients.
if TYPE_CHECKING:
    from activities.agents.mcp_servers import McpServers
    from activities.endpoints.call_context import CallContext
    from activities.endpoints.chat_models import ChatModels
    from activities.plugins.calls import PluginCalls
    from activities.plugins.loader import Plugins
    from activities.targets.http import HttpEndpoints
    from store.read.sample_files import FileReader
    from workflows.model.suite import EvaluationSuite


class Answering(Protocol):
    """A target, ready to answer samples. Raises what `faults` names, and returns outputs in canonical form."""

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output: ...


class AnsweringClass(Protocol):
    """What makes one."""

    def of(self, suite: EvaluationSuite, tools: TargetTools, *, isolate: bool) -> Answering:
        """Make it for a suite. `isolate` runs code that may kill its process in processes of its own."""
        ...


@dataclass(frozen=True)
class TargetTools:
    """What targets share within a worker process."""

    models: ChatModels
    plugins: Plugins
    calls: PluginCalls
    isolation: Isolation = field(default_factory=Isolation)
    processes: WarmProcesses = field(default_factory=WarmProcesses)
    http: HttpEndpoints | None = None
    files: FileReader | None = None
    """Where the files are that samples name."""
    mcp: McpServers | None = None
    """The MCP servers whose tools agents call."""


def answering_class(reference: str) -> AnsweringClass:
    """Import what a kind of target names: `.module:Class` of this package, or `package.module:Class`."""
    module, _, name = reference.partition(":")
    found: AnsweringClass = getattr(importlib.import_module(module, __name__), name)
    return found


def target_for(suite: EvaluationSuite, tools: TargetTools, *, isolate: bool) -> Answering:
    """The suite's target, ready to answer."""
    assert suite.target.answered_by is not None
    return answering_class(suite.target.answered_by).of(suite, tools, isolate=isolate)
