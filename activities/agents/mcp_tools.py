"""Tools of MCP servers: what the server lists, in the spec's words where it has some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from activities.agents import OutcomeUnknown, ToolCall, ToolDefinition, ToolFailed, schema_of
from activities.endpoints.retry_policy import patiently
from activities.observation.call_observation import CallFacts
from activities.targets.answers import usable_value
from activities.targets.faults import CandidateFault, NotSent, Unreachable
from ratchet._text.placeholders import Filling
from workflows.model.failures import shorten
from workflows.model.spec.targets.agent_tools import NO_ARGUMENTS, McpTools

if TYPE_CHECKING:
    from mcp_types import Tool

    from activities.agents.mcp_servers import McpConnection
    from activities.targets import TargetTools

KEY_IN_META = "io.ratchet/idempotency-key"


class CalledMcp:
    """Calls the tools of one server."""

    def __init__(self, tools: McpTools, shared: TargetTools) -> None:
        self._tools = tools
        self._shared = shared

    @classmethod
    def of(cls, tool: Any, tools: TargetTools, *, isolate: bool) -> Self:
        """Make it for the tools of a spec."""
        return cls(tool, tools)

    def _connection(self) -> McpConnection:
        spec, shared = self._tools, self._shared
        assert shared.mcp is not None and shared.http is not None
        if spec.server is not None:
            return shared.mcp.over_stdio(spec.server)
        assert spec.url is not None
        return shared.mcp.over_http(spec.url, shared.http.credentials(spec.url, spec.auth, "tool"))

    async def definitions(self, filling: Filling) -> Sequence[ToolDefinition]:
        spec = self._tools
        listed = {tool.name: tool for tool in await self._connection().tools()}
        names = list(listed) if spec.only is None else spec.only
        wanted = {*names, *spec.descriptions, *spec.parameters, *(spec.effects if isinstance(spec.effects, list) else ())}
        if missing := sorted(wanted - listed.keys()):
            raise NotSent(f"MCP server {spec.server or spec.url} has no tool {missing[0]!r}; it has {', '.join(listed)}")
        return [self._definition(listed[name], filling) for name in names]

    def _definition(self, tool: Tool, filling: Filling) -> ToolDefinition:
        spec, name = self._tools, tool.name
        given, schema = spec.descriptions.get(name), spec.parameters.get(name)
        description = tool.description or "" if given is None else filling.text(given)
        parameters = tool.input_schema or NO_ARGUMENTS if schema is None else schema_of(name, filling.json(schema))
        return ToolDefinition(name, description, parameters, self._has_effects(tool), spec.takes_key)

    def _has_effects(self, tool: Tool) -> bool:
        said = self._tools.effects
        if said is None:
            hints = tool.annotations
            return not (hints is not None and (hints.read_only_hint or hints.idempotent_hint))
        return said if isinstance(said, bool) else tool.name in said

    async def call(self, call: ToolCall) -> Any:
        models, place = self._shared.models, f"mcp:{self._tools.server or self._tools.url}"
        gate = models.gates.at(place, place)
        return await patiently(gate, lambda: self._once(call, place), models.patience, call.context)

    async def _once(self, call: ToolCall, place: str) -> Any:
        from mcp import MCPError

        await call.context.beginning.permit()
        meta = None if call.key is None else {KEY_IN_META: call.key}
        facts = CallFacts("tool", call.context.caller.run_id, address=place)
        with self._shared.models.observation.of(facts):
            try:
                result = await self._connection().call(call.name, call.arguments, call.timeout, meta)
            except TimeoutError:
                if call.never_repeated:
                    raise OutcomeUnknown(f"took longer than {call.timeout:g} s") from None
                raise ToolFailed(f"took longer than {call.timeout:g} s") from None
            except MCPError as error:
                raise ToolFailed(shorten(str(error))) from None
            except Unreachable as error:
                if call.never_repeated and error.billed != "no":
                    raise OutcomeUnknown(str(error)) from error
                raise
        return _read(result)


def _read(result: Any) -> Any:
    """Structured content where there is some, else what the parts say; parts that are no text are named."""
    parts = [getattr(part, "text", None) or f"({part.type})" for part in result.content]
    said = "\n".join(parts)
    if result.is_error:
        raise ToolFailed(shorten(said) or "the server says that it failed")
    try:
        return usable_value(said if result.structured_content is None else result.structured_content)
    except CandidateFault as fault:
        raise ToolFailed(f"the tool's result is unusable: {fault}") from None
