"""How a chat shows few-shot examples: each is written like the live message that asks for the answer.

The live message is what names the input: the user's messages, or else any. Where it shows the examples itself, it begins
behind them. So `Review: {{input.text}}`, `Sentiment:` stands in every example, whatever form the samples have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from ratchet._text.few_shot_examples import BETWEEN_EXAMPLES, answered, are_examples, labelled
from ratchet._text.placeholders import (
    LARGEST_UNFOLDING,
    Finished,
    Ready,
    Unfillable,
    UnfoldsTooFar,
    as_text,
    filled_in,
    whole_placeholder,
)
from workflows.model.spec.targets.chat import ChatStep, Message

BETWEEN_MESSAGES = "\n\n"


class ShownExamples:
    """The examples of a configuration, as one request of a chat shows them."""

    def __init__(self, request: ChatStep, configuration: Mapping[str, Any]) -> None:
        self._request = request
        self._configuration = configuration
        self._examples = {name: value for name, value in configuration.items() if are_examples(value)}

    def as_texts(self) -> Mapping[str, Any]:
        """The configuration as the request's texts show it: examples are texts. Raises Unfillable."""
        if not self._examples:
            return self._configuration
        named = dict.fromkeys(name for _, filled in self._filled for name in filled.names if name in self._kept)
        names = [name.removeprefix("factors.") for name in named]
        return {**self._configuration, **{name: self._text(name) for name in names}}

    def spliced(self, splice: str) -> list[dict[str, Any]] | None:
        """The messages of examples: what the user asks, and what the assistant answers. None where a splice is of other things.

        Raises Unfillable."""
        name = (whole_placeholder(splice) or "").removeprefix("factors.")
        if name not in self._examples:
            return None
        messages: list[dict[str, Any]] = []
        for questions, answer in self._filled_in(name):
            messages += ({"role": "user", "content": question} for question in questions)
            messages.append({"role": "assistant", "content": answer})
        return messages

    def _text(self, name: str) -> Finished:
        asked = ((BETWEEN_MESSAGES.join(questions), answer) for questions, answer in self._filled_in(name))
        written = (answered(text if self._has_words else labelled(text), answer) for text, answer in asked)
        return Finished(BETWEEN_EXAMPLES.join(written))

    def _filled_in(self, name: str) -> Iterator[tuple[list[str], str]]:
        """For each example the messages that ask, and the answer."""
        characters = 0
        for index, example in enumerate(self._examples[name]):
            given, answer = example["input"], as_text(example["output"])
            try:
                questions = [message.render(given) for message in self._live] or [as_text(given)]
            except Unfillable as error:
                told = f"of the live message is not in the input of factors.{name}[{index}]; give examples the form of samples"
                raise Unfillable(error.name, told) from None
            characters += sum(map(len, questions)) + len(answer)
            if characters > LARGEST_UNFOLDING:
                raise UnfoldsTooFar(f"factors.{name}")
            yield questions, answer

    @cached_property
    def _has_words(self) -> bool:
        """Whether the live message says more than the input."""
        return any(plain.strip() for message in self._live for plain in message.pieces[::2])

    @cached_property
    def _live(self) -> list[Ready]:
        of_the_user = [filled for message, filled in self._filled if message.role == "user"]
        return self._asking(of_the_user) or self._asking([filled for _, filled in self._filled])

    def _asking(self, texts: Sequence[Ready]) -> list[Ready]:
        """Those parts of messages that name the input. One that names an earlier step's answer can be filled for no example."""
        found = []
        for text in texts:
            asking = [part for part in _split(text, self._kept) if any(name.startswith("input") for name in part.names)]
            if asking and not any(name.startswith("steps.") for name in asking[-1].names):
                found.append(asking[-1])
        return found

    @cached_property
    def _kept(self) -> frozenset[str]:
        return frozenset(f"factors.{name}" for name in self._examples)

    @cached_property
    def _filled(self) -> list[tuple[Message, Ready]]:
        """The request's messages with everything but the examples filled in; what is wrong with one is told when it is sent."""
        found = []
        for entry in self._request.messages:
            if isinstance(entry, Message):
                with suppress(Unfillable):
                    found.append((entry, filled_in(entry.content, self._configuration, self._kept)))
        return found


def _split(ready: Ready, at: frozenset[str]) -> Iterator[Ready]:
    """The parts of a text between some placeholders; white space that only sets a part off is not its own."""
    part: list[str] = []
    is_first = True
    for index, piece in enumerate(ready.pieces):
        if index % 2 and piece in at:
            yield Ready((*part[:-1], part[-1].rstrip()))
            part, is_first = [], False
        else:
            part.append(piece.lstrip() if not part and not is_first else piece)
    yield Ready(tuple(part))
