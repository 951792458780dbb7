"""Chat targets: one request to a model, or a chain of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from ratchet._files import IMAGES, PDF, TEXT
from ratchet._frozen import SpecPart
from ratchet._text.placeholders import placeholders, whole_placeholder
from ratchet._values import CanonicalMapping, CanonicalValue, ShortText, Text
from workflows.model.spec.batch_options import BatchOptions, BatchRules
from workflows.model.spec.extensions.target_options import (
    Instructions,
    PlacedText,
    StatedParameter,
    Target,
    texts_within,
)


def _is_whole_placeholder(value: str) -> str:
    if whole_placeholder(value) is None:
        raise ValueError("is not one placeholder and nothing else; write {{input.messages}}")
    return value


class Message(SpecPart):
    """One message of a chat, with placeholders."""

    role: Literal["system", "user", "assistant", "developer", "tool"]
    """Who speaks."""
    content: Text
    """Text with placeholders: `{{input.name}}` from the sample, `{{factors.name}}` from the configuration. Where the sample has
    a file, it is sent there: an image or a PDF as a content part, a text file as text."""


TAKEN_FILES = (*IMAGES, PDF, TEXT)
"""Kinds of files that OpenAI's protocol has parts of messages for."""


class Splice(SpecPart):
    """Several messages from one place: a conversation in the sample, or examples in a factor."""

    splice: Annotated[ShortText, AfterValidator(_is_whole_placeholder)]
    """`{{input.messages}}` or `{{factors.examples}}`: a list of messages, each `{role, content}` with whatever else the
    endpoint takes (`tool_calls`, `name`, …). They are sent as they are, without placeholders."""


def _message_or_splice(value: Any) -> str:
    given = value if isinstance(value, dict) else getattr(value, "model_fields_set", ())
    return "splice" if "splice" in given else "message"


Entry = Annotated[
    Annotated[Message, Tag("message")] | Annotated[Splice, Tag("splice")],
    Discriminator(_message_or_splice),
]
Messages = Annotated[list[Entry], Field(min_length=1)]


class ChatStep(SpecPart):
    """One request of a chain. Its placeholders also know the answers of the steps before it: `{{steps.name}}`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w{0,63}$")]
    """What later steps call its answer: `{{steps.name}}`, or `{{steps.name.key}}` where the answer is JSON."""
    messages: Messages
    """What is sent, in order."""
    model: ShortText | None = None
    """The model's name. Default: the target's."""
    parameters: CanonicalMapping = Field(default_factory=dict)
    """Further request parameters of this step; they win over the target's."""

    def placed_texts(self, where: str, steps: tuple[str, ...] | None) -> Iterator[PlacedText]:
        """The texts of its messages; `steps` are those whose answers they may refer to."""
        for index, entry in enumerate(self.messages):
            if isinstance(entry, Message):
                yield PlacedText(f"{where}.messages[{index}].content", entry.content, steps)
            else:
                yield PlacedText(f"{where}.messages[{index}].splice", entry.splice, steps, is_splice=True)

    def instructions(self, where: str) -> Iterator[Instructions]:
        """What it tells the model in system messages."""
        for index, entry in enumerate(self.messages):
            if not isinstance(entry, Message):
                yield Instructions(f"{where}.messages[{index}].splice", entry.splice, self.model or "", is_splice=True)
            elif entry.role in ("system", "developer"):
                yield Instructions(f"{where}.messages[{index}].content", entry.content, self.model or "")

    def stated_parameters(self, where: str) -> Iterator[StatedParameter]:
        """Its parameters."""
        for name, value in self.parameters.items():
            yield StatedParameter(f"{where}.parameters.{name}", name, value, self.model or "")


class ChatTarget(Target):
    """A chat model of OpenAI, Anthropic, Google or Bedrock, or behind any OpenAI-compatible URL, or a chain of requests to
    several (`steps`).

    Factors named like a request parameter (`model`, `temperature`, `top_p`, `max_tokens`, …) are sent as that parameter.
    A model cannot say which configuration it was asked with: Ratchet fills the messages itself, from the overlay that the
    trial's hash names. All other kinds can echo the hash they used, and an answer with another one never scores.
    """

    answered_by = ".chat:ChatAnswers"
    taken_files = TAKEN_FILES

    kind: Literal["chat"]
    messages: Messages | None = None
    """What is sent, in order: `{role, content}`, or `{splice: …}` for a list of messages from the sample."""
    steps: Annotated[list[ChatStep], Field(min_length=1, max_length=50)] | None = None
    """Instead of `messages`: several requests, one after the other, for agents with several prompts. Tokens, cost and latency
    add up; the trace keeps every step. The sample timeout holds for each."""
    output: CanonicalValue = None
    """With `steps`: what the whole chain answers, with placeholders, as a text or as JSON. Default: the last step's answer."""
    model: ShortText = "{{factors.model}}"
    """The model's name, with `anthropic/`, `google/` or `bedrock/` before it where it is asked in its provider's own protocol.
    Default: the factor `model`."""
    parameters: CanonicalMapping = Field(default_factory=dict)
    """Further request parameters, passed through; they win over factors of the same name. `response_schema`, a JSON schema,
    holds the answer to it."""
    stream: bool = False
    """Stream the answer, which measures the time to the first token."""
    base_url: ShortText | None = None
    """Where the model answers. Default: the provider's address, or OPENAI_BASE_URL of the worker. The key always comes from the
    worker's environment."""

    @model_validator(mode="after")
    def _messages_or_steps(self) -> ChatTarget:
        if (self.messages is None) == (self.steps is None):
            raise ValueError("needs messages for one request, or steps for several; give exactly one of the two")
        if self.output is not None and self.steps is None:
            raise ValueError("output belongs to steps; remove it, the model's answer is the output")
        names = [step.name for step in self.steps or []]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"two steps are named {repeated!r}; give each a name of its own")
        return self

    @property
    def requests(self) -> tuple[ChatStep, ...]:
        """The requests it makes, each with its model and all of its own parameters."""
        if self.steps is None:
            return (ChatStep(name="answer", messages=self.messages or [], model=self.model, parameters=self.parameters),)
        return tuple(
            step.model_copy(update={"model": step.model or self.model, "parameters": {**self.parameters, **step.parameters}})
            for step in self.steps
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text of its messages, for estimates and for what a sample must have."""
        entries = [entry for request in self.requests for entry in request.messages]
        return tuple(entry.content if isinstance(entry, Message) else entry.splice for entry in entries)

    def placed_texts(self) -> Iterator[PlacedText]:
        before: list[str] = []
        if self.messages is not None:
            yield from self.requests[0].placed_texts("target", None)
        for index, step in enumerate(self.steps or []):
            where, known = f"target.steps[{index}]", tuple(before)
            yield from step.placed_texts(where, known)
            if step.model is not None:
                yield PlacedText(f"{where}.model", step.model, known)
            yield from texts_within(f"{where}.parameters", step.parameters, known)
            before.append(step.name)
        if self._asks_its_own_model:
            yield PlacedText("target.model", self.model)
        yield from texts_within("target.parameters", self.parameters)
        if self.output is not None:
            yield from texts_within("target.output", self.output, tuple(before), of_json=True)

    def instructions(self) -> Iterator[Instructions]:
        for where, request in self._placed_requests():
            yield from request.instructions(where)

    def stated_parameters(self) -> Iterator[StatedParameter]:
        for where, request in self._placed_requests():
            yield from request.stated_parameters(where)

    def _placed_requests(self) -> Iterator[tuple[str, ChatStep]]:
        for index, request in enumerate(self.requests):
            yield "target" if self.steps is None else f"target.steps[{index}]", request

    def models(self) -> Iterator[tuple[str, str]]:
        if self._asks_its_own_model:
            yield "target.model", self.model
        for index, step in enumerate(self.steps or []):
            if step.model is not None:
                yield f"target.steps[{index}].model", step.model

    @property
    def _asks_its_own_model(self) -> bool:
        return self.steps is None or any(step.model is None for step in self.steps)

    @property
    def model_url(self) -> str | None:
        return self.base_url

    @property
    def tells_first_token(self) -> bool:
        return bool(self.stream or self.parameters.get("stream"))

    def missing_scores(self) -> str:
        return "use rubric, or python"

    def batch_rules(self, options: BatchOptions, *, rest_directly: bool) -> BatchRules:
        return BatchRules(
            requests=options.requests, poll=options.poll, longest_poll=options.longest_poll, rest_directly=rest_directly
        )

    def batch_problems(self) -> Iterator[str]:
        fix = "; set execution.mode: direct"
        if self.steps is not None:
            yield f"target.steps: a batch has one request for each sample, and no step waits for another{fix}"
        elif any(name.partition(".")[0] == "input" for name in placeholders(self.model)):
            yield f"target.model: a batch is for one model, and this one depends on the sample{fix}"
        if self.tells_first_token:
            yield f"target.stream: answers of a batch are not streamed; take it out, or{fix.removeprefix(';')}"
