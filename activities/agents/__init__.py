"""What agents call: each kind of tool names the class here that calls it (`AgentTool.called_by`)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from activities.targets.faults import NotSent
from ratchet import ExperimentContext, Sample
from ratchet._text.placeholders import Filling

if TYPE_CHECKING:
    from activities.endpoints.call_context import CallContext
    from activities.targets import TargetTools
    from workflows.model.spec.targets.agent_tools import AgentTool, DescribedTool


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    effects: bool = False
    takes_key: bool = False

    @property
    def is_never_repeated(self) -> bool:
        """Whether a call that may have taken place must not be made again."""
        return self.effects and not self.takes_key

    def as_sent(self) -> dict[str, Any]:
        """The definition as models take it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, and on whose behalf it is made."""

    name: str
    arguments: dict[str, Any]
    sample: Sample
    experiment: ExperimentContext
    context: CallContext
    timeout: float
    """Seconds."""
    never_repeated: bool = False
    key: str | None = None
    """For a tool that does nothing a second time for the same one."""


class ToolFailed(Exception):
    """The call gave no result. The model is told why, and may do something else."""


class OutcomeUnknown(Exception):
    """A call with effects may have taken place, and nobody heard how it ended: it is never repeated."""


class CalledTool(Protocol):
    """A tool of a spec, or those of a server, ready to be called."""

    async def definitions(self, filling: Filling) -> Sequence[ToolDefinition]:
        """What the model is told, for one configuration and sample. Raises Unfillable and what `targets.faults` names."""
        ...

    async def call(self, call: ToolCall) -> Any:
        """What came of it, as JSON. Raises ToolFailed, OutcomeUnknown, and what `targets.faults` names."""
        ...


class CalledToolClass(Protocol):
    """What makes one."""

    def of(self, tool: AgentTool, tools: TargetTools, *, isolate: bool) -> CalledTool:
        """Make it for a tool of a spec. `isolate` runs code that may kill its process in processes of its own."""
        ...


def called_tool(tool: AgentTool, tools: TargetTools, *, isolate: bool) -> CalledTool:
    """Make what calls a tool of a spec."""
    module, _, name = tool.called_by.partition(":")
    found: CalledToolClass = getattr(importlib.import_module(module, __name__), name)
    return found.of(tool, tools, isolate=isolate)


def described(tool: DescribedTool, filling: Filling) -> ToolDefinition:
    """The definition of a tool that the spec describes."""
    assert tool.called is not None
    description, parameters = filling.text(tool.description), schema_of(tool.called, filling.json(tool.parameters))
    return ToolDefinition(tool.called, description, parameters, tool.effects, tool.takes_key)


def schema_of(name: str, filled: Any) -> Mapping[str, Any]:
    """The schema of a tool's arguments, once its placeholders are filled in."""
    if not isinstance(filled, Mapping):
        raise NotSent(f"tool {name}: its parameters are no JSON Schema of an object, but a {type(filled).__name__}")
    return filled
