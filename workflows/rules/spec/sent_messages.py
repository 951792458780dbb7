"""The messages and parameters of a request to a chat model, from a configuration and a sample: what workers send, and what
people are shown of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ratchet._formats.canonical import NotCanonical
from ratchet._text.placeholders import Filling, StepAnswer, Unfillable, step_answer_of
from workflows.model.spec.targets.chat import ChatStep, Message
from workflows.rules.spec.shown_examples import ShownExamples
from workflows.rules.spec.spliced_messages import spliced_messages

REQUEST_PARAMETERS: Final = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "presence_penalty",
    "frequency_penalty",
    "reasoning_effort",
    "seed",
    "stop",
    "tools",
    "tool_choice",
    "response_format",
    "verbosity",
)
"""Factors of these names are sent as the parameter of that name. `model` is sent by way of the target's `model`."""


class NotSpliced(Unfillable):
    """What a splice names is no list of messages."""

    def __init__(self, splice: str, told: str) -> None:
        ValueError.__init__(self, f"{splice} {told}")
        self.name = splice


@dataclass(frozen=True, slots=True)
class SentMessages:
    """One request, as far as it follows from configuration, sample and the answers before it."""

    name: str
    model: str
    messages: list[dict[str, Any]]
    parameters: dict[str, Any]
    problem: str | None = None
    """Why it cannot be told, or could not be sent."""


def factors_sent(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the factors that are sent as the request parameter of their name."""
    return {name: configuration[name] for name in REQUEST_PARAMETERS if configuration.get(name) is not None}


def messages_of(request: ChatStep, examples: ShownExamples, given: Any, steps: StepAnswer) -> list[dict[str, Any]]:
    """Fill in the messages of a request. Raises Unfillable."""
    filling = Filling(examples.as_texts(), given, steps)
    messages: list[dict[str, Any]] = []
    for entry in request.messages:
        if isinstance(entry, Message):
            messages.append({"role": entry.role, "content": filling.text(entry.content)})
            continue
        try:
            spliced = examples.spliced(entry.splice)
            messages += spliced_messages(filling.json(entry.splice)) if spliced is None else spliced
        except Unfillable:
            raise
        except ValueError as error:
            raise NotSpliced(entry.splice, str(error)) from None
    return messages


def sent_messages(
    requests: Sequence[ChatStep], configuration: Mapping[str, Any], given: Any, outputs: Mapping[str, Any]
) -> list[SentMessages]:
    """Tell what the requests of a chain said. `outputs` are those of its steps; where one is lacking, no more is told."""
    told: list[SentMessages] = []
    for request in requests:
        try:
            steps = step_answer_of(dict(outputs))
            filling = Filling(configuration, given, steps)
            messages = messages_of(request, ShownExamples(request, configuration), given, steps)
            parameters = {**factors_sent(configuration), **filling.json(request.parameters)}
            told.append(SentMessages(request.name, filling.text(request.model or ""), messages, parameters))
        except (Unfillable, NotCanonical, RecursionError) as error:
            return [*told, SentMessages(request.name, "", [], {}, str(error))]
    return told
