"""The tools of an agent: Python callables, HTTP endpoints, and those of MCP servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from ratchet._frozen import SpecPart
from ratchet._text.placeholders import whole_placeholder
from ratchet._values import CanonicalValue, ShortText, Text
from workflows.model.spec.durations import PositiveDuration
from workflows.model.spec.extensions.named_plugins import NamedPlugin, PluginReference
from workflows.model.spec.extensions.target_options import CalledPlace, PlacedText, texts_within
from workflows.model.spec.targets.http import HttpHeaders, HttpUrl, Path

ToolName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
"""What a model calls a tool."""

NO_ARGUMENTS: dict[str, JsonValue] = {"type": "object", "properties": {}}


def _is_schema(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping) or (isinstance(value, str) and whole_placeholder(value) is not None):
        return value
    raise ValueError("is no JSON Schema of an object; write a mapping, or one placeholder such as {{factors.parameters}}")


ArgumentsSchema = Annotated[CanonicalValue, AfterValidator(_is_schema)]
"""A JSON Schema of a tool's arguments, with placeholders in its texts; or one placeholder that stands for all of it."""


def _stays(value: str) -> str:
    if "{{" in value:
        raise ValueError("has a placeholder; where a tool is, no candidate may change")
    return value


ToolUrl = Annotated[HttpUrl, AfterValidator(_stays)]


class AgentTool(SpecPart):
    """What the tools of an agent have in common."""

    called_by: ClassVar[str]
    """The class that calls it, as `.module:Class` of `activities.agents`."""

    takes_key: bool = False
    """With `effects`: it is given a key, and does nothing a second time for the same one. Then a call that was cut off is made
    again with its key. Without it such a call fails its sample by name, and is never repeated."""
    timeout: PositiveDuration | None = None
    """The longest one call may take. Default: `execution.sample_timeout`."""

    @property
    def called(self) -> str | None:
        """The name of its one tool; None where a server says which it has."""
        return None

    def plugins(self, where: str) -> Iterator[NamedPlugin]:
        """The plug-ins it names; `where` is its own field."""
        yield from ()

    def placed_texts(self, where: str) -> Iterator[PlacedText]:
        """Its texts with placeholders."""
        yield from ()

    def called_places(self, where: str) -> Iterator[CalledPlace]:
        """What it calls over HTTP."""
        yield from ()

    def called_servers(self, where: str) -> Iterator[tuple[str, str]]:
        """The MCP servers that it calls by name, each with its field."""
        yield from ()

    @property
    def described(self) -> Iterator[Any]:
        """What a model is sent of it with every turn, as far as the spec says it."""
        yield from ()


class DescribedTool(AgentTool):
    """A tool that the spec describes."""

    description: Text = ""
    """What it does, in words for the model, with placeholders: `{{factors.lookup}}` makes it a factor. A factor `tools`, such
    as a prompt with sections of kind tool has, describes the tools that it names instead."""
    parameters: ArgumentsSchema = Field(default_factory=lambda: dict(NO_ARGUMENTS))
    """The JSON Schema of its arguments, with placeholders in its texts, or one placeholder that stands for all of it. Default:
    it takes none."""
    effects: bool = False
    """Whether a call changes something outside. Such a call is noted before it is made and never repeated, unless the tool
    takes a key."""

    @model_validator(mode="after")
    def _keys_belong_to_effects(self) -> DescribedTool:
        if self.takes_key and not self.effects:
            raise ValueError("takes_key belongs to effects: true; a tool without effects may simply be called again")
        return self

    def placed_texts(self, where: str) -> Iterator[PlacedText]:
        yield PlacedText(f"{where}.description", self.description)
        yield from texts_within(f"{where}.parameters", self.parameters, of_json=True)

    @property
    def described(self) -> Iterator[Any]:
        yield {"name": self.called, "description": self.description, "parameters": self.parameters}


class PythonTool(DescribedTool):
    """A Python callable, sync or async, called with the arguments by name. Where it has parameters `sample`, `context` or
    `idempotency_key`, it is given these, too. What it raises, the model is told."""

    called_by = ".python_tools:CalledPython"

    kind: Literal["python"]
    ref: PluginReference
    """`package.module:attribute`."""
    name: ToolName | None = None
    """What the model calls it. Default: the name of the function."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""
    pool: Literal["thread", "process"] = "thread"
    """Where a callable that is not async runs. `process`: in warm processes of its own."""
    processes: Annotated[int, Field(ge=1, le=1000)] | None = None
    """With `pool: process`, how many there are on each worker. Default: as many as it has processors."""

    @model_validator(mode="after")
    def _processes_belong_to_a_pool(self) -> PythonTool:
        if self.processes is not None and self.pool != "process":
            raise ValueError("processes is given, but pool is thread; add pool: process, or remove processes")
        return self

    @property
    def called(self) -> str:
        return self.name or self.ref.rpartition(":")[2].rpartition(".")[2]

    def plugins(self, where: str) -> Iterator[NamedPlugin]:
        yield NamedPlugin(f"{where}.ref", self.ref, 0, self.version)


class HttpTool(DescribedTool):
    """An HTTP endpoint. It is sent the arguments as a JSON object, with GET and DELETE as a query, and the key as the header
    `Idempotency-Key`. What it refuses with 4xx, the model is told."""

    called_by = ".http_tools:CalledHttp"

    kind: Literal["http"]
    name: ToolName
    """What the model calls it."""
    url: ToolUrl
    """The endpoint. Its origin must be in RATCHET_HTTP_URLS of the worker; `ratchet run` on embedded servers allows it."""
    method: Literal["POST", "PUT", "PATCH", "GET", "DELETE"] = "POST"
    """How it is asked."""
    headers: HttpHeaders = Field(default_factory=dict)
    """Further headers, as they stand. No secrets: those are for `auth`."""
    auth: Literal["none", "bearer", "x-api-key"] = "none"
    """Send RATCHET_HTTP_TOKEN of the worker, as HTTP targets do."""
    output: Path | None = None
    """Where in a JSON response the result is: `result.items`. Default: the whole response."""
    version: ShortText | None = None
    """Names the code behind the endpoint; another version is another target, whose answers are not mixed with these."""

    @property
    def called(self) -> str:
        return self.name

    def called_places(self, where: str) -> Iterator[CalledPlace]:
        yield CalledPlace(self.url, "RATCHET_HTTP_URLS", "the tool", "tools", self.auth, where=f"{where}.url")


class McpTools(AgentTool):
    """The tools of an MCP server, described by the server where the spec says nothing else. Needs `ratchet-optimizer[mcp]`
    where the workers run. One connection serves all conversations of a worker: what a server remembers between two calls is
    lost with it."""

    called_by = ".mcp_tools:CalledMcp"

    kind: Literal["mcp"]
    server: ShortText | None = None
    """A server over stdio, by the name under which RATCHET_MCP_SERVERS of the worker has its command. A spec never names a
    command."""
    url: ToolUrl | None = None
    """Or a server over HTTP. Its origin must be in RATCHET_HTTP_URLS of the worker."""
    auth: Literal["none", "bearer", "x-api-key"] = "none"
    """With `url`: send RATCHET_HTTP_TOKEN of the worker."""
    only: Annotated[list[ToolName], Field(min_length=1)] | None = None
    """The tools that the model may call. Default: all that the server has."""
    descriptions: dict[ToolName, Text] = Field(default_factory=dict)
    """What tools do, in words for the model, with placeholders, in the place of the server's words."""
    parameters: dict[ToolName, ArgumentsSchema] = Field(default_factory=dict)
    """JSON Schemas of arguments, in the place of the server's."""
    effects: bool | list[ToolName] | None = None
    """Whether calls change something outside, or which tools' calls do. Default: all but those that the server marks as
    read-only or idempotent."""
    version: ShortText | None = None
    """Names what is behind the server; another version is another target, whose answers are not mixed with these."""

    @model_validator(mode="after")
    def _is_in_one_place(self) -> McpTools:
        if (self.server is None) == (self.url is None):
            raise ValueError(
                "needs a server, which RATCHET_MCP_SERVERS of the worker has, or a url; give exactly one of the two"
            )
        if self.auth != "none" and self.url is None:
            raise ValueError("auth belongs to url; a server over stdio has its operator's environment")
        return self

    def placed_texts(self, where: str) -> Iterator[PlacedText]:
        for name, text in self.descriptions.items():
            yield PlacedText(f"{where}.descriptions.{name}", text)
        yield from texts_within(f"{where}.parameters", self.parameters, of_json=True)

    @property
    def described(self) -> Iterator[Any]:
        for name in {**self.descriptions, **self.parameters}:
            yield {"name": name, "description": self.descriptions.get(name, ""), "parameters": self.parameters.get(name)}

    def called_places(self, where: str) -> Iterator[CalledPlace]:
        if self.url is not None:
            yield CalledPlace(self.url, "RATCHET_HTTP_URLS", "the MCP server", "tools", self.auth, where=f"{where}.url")

    def called_servers(self, where: str) -> Iterator[tuple[str, str]]:
        if self.server is not None:
            yield f"{where}.server", self.server


Tool = Annotated[PythonTool | HttpTool | McpTools, Field(discriminator="kind")]


def definitions_in(value: Any) -> dict[str, Mapping[str, Any]]:
    """Read what a factor `tools` says of tools: OpenAI's definitions of functions, by name."""
    listed = value if isinstance(value, list) else []
    functions = [entry.get("function") for entry in listed if isinstance(entry, Mapping)]
    return {str(one["name"]): one for one in functions if isinstance(one, Mapping) and "name" in one}
