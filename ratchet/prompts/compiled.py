"""A prompt with its values in force: compiled once, rendered for every input in microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ratchet._text.placeholders import Ready


@dataclass(frozen=True, slots=True)
class RenderedTool:
    """A tool as models are told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rendering:
    """What is left to do when an input comes."""

    text: Ready
    """Text sections and examples, in their order."""
    system: Ready
    """Text sections alone."""
    examples: tuple[tuple[Ready, Ready], ...]
    tools: tuple[tuple[str, Ready, Mapping[str, Any]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What is still to be filled in, anywhere in it, each once."""
        examples = (ready for example in self.examples for ready in example)
        texts = (self.text, self.system, *examples, *(description for _, description, _ in self.tools))
        return tuple(dict.fromkeys(name for ready in texts for name in ready.names))

    def render(self, given: Any = None) -> Rendered:
        """For one input. A placeholder that nothing fills is an error."""
        return Rendered(self.text.render(given), self, given)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt for one input, in the form that the caller needs."""

    text: str
    """All of it as one text; examples stand in their place. Tools are beside it."""
    _rendering: Rendering
    _given: Any

    def __str__(self) -> str:
        return self.text

    @property
    def messages(self) -> list[dict[str, str]]:
        """The same as messages of a chat: the text as the system's, then each example as a question and its answer."""
        messages = [{"role": "system", "content": self._rendering.system.render(self._given)}]
        for question, answer in self._rendering.examples:
            messages.append({"role": "user", "content": question.render(self._given)})
            messages.append({"role": "assistant", "content": answer.render(self._given)})
        return messages

    @property
    def tools(self) -> list[RenderedTool]:
        return [
            RenderedTool(name, description.render(self._given), parameters)
            for name, description, parameters in self._rendering.tools
        ]
