"""Placeholders: `{{input.name}}` and `{{factors.name}}`, everywhere the same; `{{steps.name}}` in a chain of model calls.

They only substitute. Single braces are plain text, an unknown name is an error, and what was substituted is never read
again, so a sample that contains `{{…}}` stays data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ratchet.canonical import canonical_json, normalize

_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")
"""White space around a name is cut off afterwards: a pattern that also matched it takes cubic time on hostile text."""

_UNCLOSED = re.compile(r"\{\{\s*+((?:input|factors|steps)\b[\w./:-]*+)(?!\s*+\}\})")
"""Possessive, so that no text makes it take more than linear time."""

_NAME = re.compile(r"(input|factors)(?:\.([\w./:-]+))?")


class UnknownPlaceholder(ValueError):
    """A placeholder that names nothing."""

    def __init__(self, name: str, known: str) -> None:
        super().__init__(f"placeholder {{{{{name}}}}} names nothing known; known are {known}")
        self.name = name


class Finished(str):
    """A text in which everything was substituted already: whatever it holds, it is never read for placeholders again."""

    __slots__ = ()


def placeholders(text: str) -> tuple[str, ...]:
    """The names a text refers to, each once, in the order they appear."""
    return tuple(dict.fromkeys(match.group(1).strip() for match in _PLACEHOLDER.finditer(text)))


def unclosed(text: str) -> str | None:
    """The name behind a `{{` that was meant as a placeholder but is never closed."""
    match = _UNCLOSED.search(text)
    return None if match is None else match.group(1)


def is_placeholder_name(name: str) -> bool:
    """Whether a name could be substituted: `input`, `input.name` or `factors.name`."""
    match = _NAME.fullmatch(name)
    return match is not None and (match.group(1) == "input" or match.group(2) is not None)


_NOTHING: dict[str, Any] = {}

StepAnswer = Callable[[str], Any]
"""What `{{steps.…}}` stands for, by its name."""


def no_steps(name: str) -> Any:
    """Where there are no steps, `steps.name` names nothing."""
    raise UnknownPlaceholder(name, "{{input}}, {{input.…}} and {{factors.…}}")


def render(text: str, factors: Mapping[str, Any], sample_input: Any, step_answer: StepAnswer = no_steps) -> str:
    """The text with every placeholder substituted; text factors may themselves refer to the input and to other factors."""
    return filled_in(text, factors).render(sample_input, step_answer)


@dataclass(frozen=True, slots=True)
class Ready:
    """A text in which only what differs from sample to sample is still to be filled in."""

    pieces: tuple[str, ...]
    """Plain text and names of placeholders, in turn; plain text comes first."""
    _holes: tuple[tuple[int, str], ...] = field(init=False, repr=False, compare=False)
    """Where each placeholder is, and the key of the input that it most likely names."""

    def __post_init__(self) -> None:
        holes = tuple((index, self.pieces[index].removeprefix("input.")) for index in range(1, len(self.pieces), 2))
        object.__setattr__(self, "_holes", holes)

    @property
    def names(self) -> tuple[str, ...]:
        """What is still to be filled in, each once, in the order it appears."""
        return tuple(dict.fromkeys(self.pieces[1::2]))

    @property
    def text(self) -> str:
        """The text, with its placeholders as they are written."""
        return "".join(piece if index % 2 == 0 else f"{{{{{piece}}}}}" for index, piece in enumerate(self.pieces))

    def render(self, sample_input: Any, step_answer: StepAnswer = no_steps) -> str:
        rendered = list(self.pieces)
        likely = sample_input.get if type(sample_input) is dict else _NOTHING.get
        for index, key in self._holes:
            value = likely(key)
            name = rendered[index]
            if type(value) is not str or name == key:  # not the text of an input; what else, is decided with care
                value = as_text(step_answer(name) if name.startswith("steps.") else _input_value(name, sample_input))
            rendered[index] = value
        return "".join(rendered)


def filled_in(text: str, factors: Mapping[str, Any]) -> Ready:
    """The text with the factors substituted, ready for any number of samples."""
    pieces = [""]

    def add(part: str, within: tuple[str, ...]) -> None:
        for index, piece in enumerate(_PLACEHOLDER.split(part)):
            name = piece.strip()
            if index % 2 == 0:
                pieces[-1] += piece
            elif not name.startswith("factors."):
                pieces.extend((name, ""))
            else:
                add_factor(name, within)

    def add_factor(name: str, within: tuple[str, ...]) -> None:
        factor = name.removeprefix("factors.")
        if factor not in factors or factor in within:
            raise UnknownPlaceholder(name, _listed("factors", {key: None for key in factors if key not in within}))
        value = factors[factor]
        if isinstance(value, str) and not isinstance(value, Finished):
            add(value, (*within, factor))
        else:
            pieces[-1] += as_text(value)

    add(text, ())
    return Ready(tuple(pieces))


def fill(template: Any, factors: Mapping[str, Any], sample_input: Any, step_answer: StepAnswer = no_steps) -> Any:
    """JSON with every placeholder in its texts substituted.

    A text that is nothing but one placeholder becomes the value itself, whatever its type; `{{factors}}` becomes all of them.
    """
    filled = partial(fill, factors=factors, sample_input=sample_input, step_answer=step_answer)
    match template:
        case str():
            return _filled_text(template, factors, sample_input, step_answer)
        case Mapping():
            return {name: filled(part) for name, part in template.items()}
        case list():
            return [filled(part) for part in template]
    return template


def _filled_text(text: str, factors: Mapping[str, Any], sample_input: Any, step_answer: StepAnswer) -> Any:
    whole = whole_placeholder(text)
    if whole is None:
        return render(text, factors, sample_input, step_answer)
    if whole == "factors":
        return dict(factors)
    if whole.startswith("steps."):
        return step_answer(whole)
    if not whole.startswith("factors."):
        return _input_value(whole, sample_input)
    name = whole.removeprefix("factors.")
    keeps_its_type = name in factors and not isinstance(factors[name], str)
    return factors[name] if keeps_its_type else render(text, factors, sample_input, step_answer)


def whole_placeholder(text: str) -> str | None:
    """The name in a text that is one placeholder and nothing else."""
    match = _PLACEHOLDER.fullmatch(text.strip())
    return None if match is None else match.group(1).strip()


def step_answer_of(answers: Mapping[str, Any]) -> StepAnswer:
    """`steps.name` is that step's answer, `steps.name.key` a part of it; an answer that is JSON in a text is read for that."""

    def answer(name: str) -> Any:
        step, *path = name.removeprefix("steps.").split(".")
        if step not in answers:
            raise UnknownPlaceholder(name, _listed("steps", answers))
        value = answers[step]
        if path and isinstance(value, str):
            value = _parsed(value)
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                raise UnknownPlaceholder(name, f"{{{{steps.{step}}}}}, whose answer has no {key!r}")
            value = value[key]
        return value

    return answer


def _parsed(text: str) -> Any:
    """JSON in a text; None where it is none, or holds what has no canonical form, such as NaN."""
    try:
        return normalize(json.loads(text))
    except (ValueError, RecursionError):
        return None


def substitute(text: str, values: Mapping[str, str]) -> str:
    """The text with the given names substituted; for templates of our own."""

    def value_of(name: str) -> str:
        if name not in values:
            raise UnknownPlaceholder(name, ", ".join(f"{{{{{known}}}}}" for known in values))
        return values[name]

    return _substitute(text, value_of)


def as_text(value: Any) -> str:
    """Text as it is; anything else as canonical JSON."""
    return value if isinstance(value, str) else canonical_json(value)


def _substitute(text: str, value_of: Callable[[str], str]) -> str:
    return _PLACEHOLDER.sub(lambda match: value_of(match.group(1).strip()), text)


def _input_value(name: str, sample_input: Any) -> Any:
    if name == "input":
        return sample_input
    path = name.removeprefix("input.")
    if not name.startswith("input.") or not isinstance(sample_input, Mapping):
        raise UnknownPlaceholder(name, _listed("input", sample_input if isinstance(sample_input, Mapping) else {}))
    if path in sample_input:
        return sample_input[path]
    value: Any = sample_input
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            raise UnknownPlaceholder(name, _listed("input", sample_input))
        value = value[step]
    return value


def _listed(scope: str, names: Mapping[str, Any]) -> str:
    return ", ".join(f"{{{{{scope}.{name}}}}}" for name in sorted(names)) or f"{{{{{scope}}}}}"
