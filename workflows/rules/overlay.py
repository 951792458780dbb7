"""What a trial runs against: a configuration by its hash, and what targets are handed of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ratchet._text.placeholders import Finished, Unfillable, filled_in
from ratchet.prompts.compiled import Rendered, Rendering
from ratchet.prompts.template import PromptTemplate, effective_hash
from workflows.rules.spec.prompt_factors import MESSAGES, PROMPT, TOOLS, made_of, shows_the_prompt


class NotRendered(dict[str, Any]):
    """A configuration whose prompt cannot be rendered from a sample; who asks for the rendered prompt is told why."""

    def __init__(self, factors: Mapping[str, Any], why: str) -> None:
        super().__init__(factors)
        self.why = why

    def __missing__(self, name: str) -> Any:
        if name in (PROMPT, MESSAGES, TOOLS):
            raise KeyError(f"{name}: cannot be rendered from this sample's input alone: {self.why}; render the prompt yourself")
        raise KeyError(name)


@dataclass(frozen=True)
class Overlay:
    """A candidate's configuration."""

    config_hash: str
    configuration: Mapping[str, Any]
    template: PromptTemplate | None = None
    """What its sections and parameters are parts of."""

    @cached_property
    def prompt_hash(self) -> str:
        """The hash that `resolve` gives for the prompt in it; the overlay's own where there is no prompt."""
        return self.config_hash if self.template is None else effective_hash(self.configuration)

    def is_named_by(self, echoed: str) -> bool:
        """Whether an answer that echoes this was made with the overlay."""
        return echoed in (self.config_hash, self.prompt_hash)

    def for_sample(self, given: Any, *, strict: bool = False) -> dict[str, Any]:
        """The configuration with the prompt rendered for one sample.

        Where the sample lacks what the prompt asks for, the rendered forms are left out, for targets that render it themselves;
        `strict` raises Unfillable instead.
        """
        try:
            return {**self._by_every_name, **self._rendered(given)}
        except Unfillable as error:
            if strict:
                raise
            return NotRendered(self._by_every_name, str(error))

    def needs(self, text: str) -> Iterator[str]:
        """What a text of the target needs of a sample's input: the names of `{{input…}}`, in it and in all that it shows.

        Raises Unfillable.
        """
        yield from (name for name in filled_in(text, self._with_forms_left_out).names if name.startswith("input"))
        if self._rendering is not None and shows_the_prompt(text):
            yield from self._rendering.names

    @cached_property
    def _with_forms_left_out(self) -> dict[str, Any]:
        forms = dict.fromkeys((PROMPT, MESSAGES, TOOLS), Finished("")) if self._rendering is not None else {}
        return {**self._by_every_name, **forms}

    @cached_property
    def for_every_sample(self) -> dict[str, Any]:
        """What strangers are sent once for all samples."""
        return _without_repetition(self.for_sample({}))

    def differing(self, given: Any) -> dict[str, Any]:
        """What strangers are sent with one sample: the rendered forms, where they differ by sample."""
        mine = _without_repetition(self.for_sample(given))
        return {name: mine[name] for name in (PROMPT, MESSAGES, TOOLS) if name in mine and name not in self.for_every_sample}

    @cached_property
    def _rendering(self) -> Rendering | None:
        return None if self.template is None else self.template.rendering(self.configuration)

    @cached_property
    def _by_every_name(self) -> dict[str, Any]:
        short = {name: parts[0] for name, parts in made_of(self.template).items() if name not in (PROMPT, MESSAGES, TOOLS)}
        return {**self.configuration, **{name: self.configuration[factor] for name, factor in short.items()}}

    def _rendered(self, given: Any) -> dict[str, Any]:
        if self._rendering is None:
            return {}
        rendered = self._rendering.render(given)
        forms: dict[str, Any] = {PROMPT: Finished(rendered.text), MESSAGES: rendered.messages}
        return forms | ({TOOLS: _functions(rendered)} if rendered.tools else {})


def _without_repetition(configuration: dict[str, Any]) -> dict[str, Any]:
    """Without messages that only say what the text says: every call of an activity would keep them in a history."""
    if len(configuration.get(MESSAGES, ())) > 1:
        return configuration
    return {name: value for name, value in configuration.items() if name != MESSAGES}


def _functions(rendered: Rendered) -> list[dict[str, Any]]:
    """Tools as chat models take them."""
    return [
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
        for tool in rendered.tools
    ]
