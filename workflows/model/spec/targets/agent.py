"""Agent targets: a model that calls tools, turn by turn, until it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ratchet._frozen import SpecPart
from ratchet._values import CanonicalMapping, ShortText
from workflows.model.run.numbers import Cost, Count
from workflows.model.spec.durations import PositiveDuration
from workflows.model.spec.extensions.named_plugins import NamedPlugin
from workflows.model.spec.extensions.target_options import (
    CalledPlace,
    Instructions,
    PlacedText,
    StatedParameter,
    Target,
    texts_within,
)
from workflows.model.spec.targets.agent_tools import Tool
from workflows.model.spec.targets.chat import TAKEN_FILES, ChatStep, Message, Messages
from workflows.model.spec.targets.simulated_users import ModelUser, ScriptedUser, User


class AgentLimits(SpecPart):
    """What one conversation may take. The turn that reaches a limit is its last."""

    turns: Annotated[int, Field(ge=1, le=1000)] = 20
    """How often the model is asked."""
    tool_calls: Annotated[int, Field(ge=0, le=10_000)] = 100
    """How many calls of tools are made. Those of a turn are made all or none."""
    tokens: Count | None = None
    """In and out, over all turns."""
    cost: Cost | None = None
    """In the currency of the prices."""
    time: PositiveDuration | None = None
    """How long models and tools may take together; waiting for limits and budgets does not count."""


class AgentTarget(Target):
    """A model that calls tools, turn by turn, until it answers without calling one.

    Every turn and every result is stored as it comes: after a crash the conversation goes on where it was. Tokens, cost and
    latency add up over the turns; the trace keeps them all. Factors named like a request parameter are sent as that parameter.
    """

    answered_by = ".agent:AgentAnswers"
    taken_files = TAKEN_FILES
    keeps_turns = True

    kind: Literal["agent"]
    messages: Messages
    """How a conversation begins: `{role, content}`, or `{splice: …}` for a list of messages from the sample."""
    tools: Annotated[list[Tool], Field(default_factory=list, max_length=100)]
    """What the model may call: `{kind: python}`, `{kind: http}` or `{kind: mcp}`. The calls of one turn are made one after the
    other, in the model's order."""
    user: User | None = None
    """Who answers the model's answers, for conversations of several rounds: `{kind: scripted}` or `{kind: model}`. Default:
    nobody, and the first answer is the last."""
    model: ShortText = "{{factors.model}}"
    """The model's name. Default: the factor `model`."""
    parameters: CanonicalMapping = Field(default_factory=dict)
    """Further request parameters, passed through; they win over factors of the same name."""
    stream: bool = False
    """Stream the model's turns."""
    base_url: ShortText | None = None
    """Where the model answers. Default: OPENAI_BASE_URL of the worker."""
    limits: AgentLimits = Field(default_factory=AgentLimits)
    """What one conversation may take."""
    at_limit: Literal["fail", "answer"] = "fail"
    """What becomes of a conversation that reaches a limit: a failed sample that names it, or an answer, which is what the model
    said last."""
    longest_result: Annotated[int, Field(ge=100, le=200_000)] = 20_000
    """Characters of a tool's result that the model is shown; the rest is cut."""

    @model_validator(mode="after")
    def _tools_have_names_of_their_own(self) -> AgentTarget:
        names = [tool.called for tool in self.tools if tool.called is not None]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"two tools are named {repeated!r}; give each a name of its own")
        return self

    @property
    def requests(self) -> Sequence[ChatStep]:
        return (ChatStep(name="answer", messages=self.messages, model=self.model, parameters=self.parameters),)

    @property
    def most_turns(self) -> int:
        return self.limits.turns

    @property
    def simulated_user(self) -> ModelUser | None:
        return self.user if isinstance(self.user, ModelUser) else None

    @property
    def most_shown(self) -> int:
        return self.limits.tool_calls * self.longest_result if self.tools else 0

    @property
    def texts(self) -> Sequence[str]:
        said = [entry.content if isinstance(entry, Message) else entry.splice for entry in self.messages]
        scripted = self.user.placed_texts() if isinstance(self.user, ScriptedUser) else ()
        return (*said, *(placed.text for placed in scripted))

    @property
    def described_tools(self) -> Sequence[Any]:
        return [described for tool in self.tools for described in tool.described]

    def plugins(self) -> Iterator[NamedPlugin]:
        for where, tool in self._placed_tools():
            yield from tool.plugins(where)

    def placed_texts(self) -> Iterator[PlacedText]:
        yield from self.requests[0].placed_texts("target", None)
        yield PlacedText("target.model", self.model)
        yield from texts_within("target.parameters", self.parameters)
        for where, tool in self._placed_tools():
            yield from tool.placed_texts(where)
        if self.user is not None:
            yield from self.user.placed_texts()

    def instructions(self) -> Iterator[Instructions]:
        yield from self.requests[0].instructions("target")

    def stated_parameters(self) -> Iterator[StatedParameter]:
        yield from self.requests[0].stated_parameters("target")
        if self.user is not None:
            yield from self.user.stated_parameters()

    def called_places(self) -> Iterator[CalledPlace]:
        for where, tool in self._placed_tools():
            yield from tool.called_places(where)

    def called_servers(self) -> Iterator[tuple[str, str]]:
        for where, tool in self._placed_tools():
            yield from tool.called_servers(where)

    def _placed_tools(self) -> Iterator[tuple[str, Tool]]:
        for index, tool in enumerate(self.tools):
            yield f"target.tools[{index}]", tool

    def models(self) -> Iterator[tuple[str, str]]:
        yield "target.model", self.model
        if self.user is not None:
            yield from self.user.models()

    @property
    def model_url(self) -> str | None:
        return self.base_url

    @property
    def tells_first_token(self) -> bool:
        return False

    def missing_scores(self) -> str:
        return "use rubric, tools_called, or python"
