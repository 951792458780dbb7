"""Placeholders: `{{input.name}}` and `{{factors.name}}`, everywhere the same; `{{steps.name}}` in a chain of model calls.

They only substitute. Single braces are plain text, an unknown name is an error, and what was substituted is never read
again, so a sample that contains `{{…}}` stays data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ratchet._formats.canonical import canonical_json, normalize

_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")
"""White space around a name is cut off afterwards: a pattern that also matched it takes cubic time on hostile text."""

_UNCLOSED = re.compile(r"\{\{\s*+((?:input|factors|steps)\b[\w./:-]*+)(?!\s*+\}\})")
"""Possessive, so that no text makes it take more than linear time."""

_NAME = re.compile(r"(input|factors)(?:\.([\w./:-]+))?")


LARGEST_UNFOLDING: Final = 1024 * 1024
"""Characters that the factors in one text, and the factors within these, may add to it: four times the largest configuration.
A few short factors that name each other twice would otherwise fill the memory."""

MOST_SUBSTITUTIONS: Final = 20_000
"""Factors that are substituted in one text. They may be empty, and still take time."""

LARGEST_RENDERED: Final = 64 * 1024 * 1024
"""Characters of a text with everything filled in: four of the largest samples."""

FEW_HOLES: Final = 4
"""So many samples, of 16 MiB at most, are not too much; a text with more placeholders is measured."""


class Unfillable(ValueError):
    """A text whose placeholders cannot be filled in; `name` is the placeholder."""

    def __init__(self, name: str, told: str) -> None:
        super().__init__(f"placeholder {{{{{name}}}}} {told}")
        self.name = name


class UnknownPlaceholder(Unfillable):
    """A placeholder that names nothing."""

    def __init__(self, name: str, known: str) -> None:
        super().__init__(name, f"names nothing known; known are {known}")


class UnfoldsTooFar(Unfillable):
    """A placeholder whose factor names other factors, and these others, until it is too much."""

    def __init__(self, name: str) -> None:
        super().__init__(
            name,
            f"unfolds too far: factors may add {LARGEST_UNFOLDING:,} characters and {MOST_SUBSTITUTIONS:,} substitutions to a "
            "text; let factors name each other less often",
        )


class RendersTooLong(Unfillable):
    """A placeholder that makes a text longer than any target takes."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"makes the text longer than {LARGEST_RENDERED:,} characters; use the input less often in it")


class Finished(str):
    """A text in which everything was substituted already: whatever it holds, it is never read for placeholders again."""

    __slots__ = ()


def every_placeholder(text: str) -> Iterator[str]:
    """The names a text refers to, as often as it does, in the order they appear."""
    return (match.group(1).strip() for match in _PLACEHOLDER.finditer(text))


def placeholders(text: str) -> tuple[str, ...]:
    """The names a text refers to, each once, in the order they appear."""
    return tuple(dict.fromkeys(every_placeholder(text)))


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
    return Filling(factors, sample_input, step_answer).text(text)


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
        """The text for one sample. Raises Unfillable where the sample lacks something, or makes it too long."""
        rendered = list(self.pieces)
        likely = sample_input.get if type(sample_input) is dict else _NOTHING.get
        decided: dict[str, str] | None = None
        for index, key in self._holes:
            value = likely(key)
            name = rendered[index]
            if type(value) is not str or name == key:  # not the text of an input; what else, is decided with care
                if decided is None:
                    decided = {}
                if name not in decided:
                    found = step_answer(name) if name.startswith("steps.") else _input_value(name, sample_input)
                    decided[name] = as_text(found)
                value = decided[name]
            rendered[index] = value
        if len(self._holes) > FEW_HOLES and sum(map(len, rendered)) > LARGEST_RENDERED:
            longest = max(self._holes, key=lambda hole: len(rendered[hole[0]]), default=(0, ""))[0]
            raise RendersTooLong(self.pieces[longest])
        return "".join(rendered)


def filled_in(text: str, factors: Mapping[str, Any], kept: frozenset[str] = frozenset()) -> Ready:
    """The text with the factors substituted but for those that are `kept`, ready for any number of samples.

    Raises Unfillable."""
    if "factors." not in text:
        return Ready(tuple(_parts(text)))
    return Ready(tuple(_unfolded(text, factors, kept)))


def _parts(text: str) -> list[str]:
    """Plain text and names of placeholders, in turn; plain text comes first, and last."""
    parts = _PLACEHOLDER.split(text)
    parts[1::2] = [name.strip() for name in parts[1::2]]
    return parts


def _unfolded(text: str, factors: Mapping[str, Any], kept: frozenset[str]) -> list[str]:
    """The same with every factor's text in its place, read for placeholders in its turn. Factors may form long chains, so that
    the texts that are being read are kept in a list instead of on the interpreter's stack."""
    pieces: list[str] = []
    plain: list[str] = []
    reading: list[tuple[str, Iterator[str]]] = [("", iter(_parts(text)))]
    within: dict[str, None] = {}
    characters = substitutions = 0
    outermost = ""
    while reading:
        reader, parts = reading[-1]
        plain.append(next(parts))
        name = next(parts, None)
        if name is None:
            reading.pop()
            within.pop(reader, None)
            continue
        if not name.startswith("factors.") or name in kept:
            pieces += ("".join(plain), name)
            plain = []
            continue
        if len(reading) == 1:
            outermost = name
        factor = name.removeprefix("factors.")
        if factor not in factors or factor in within:
            raise UnknownPlaceholder(name, _listed("factors", {key: None for key in factors if key not in within}))
        value = factors[factor]
        added = value if isinstance(value, str) else as_text(value)
        characters += len(added)
        substitutions += 1
        if characters > LARGEST_UNFOLDING or substitutions > MOST_SUBSTITUTIONS:
            raise UnfoldsTooFar(outermost)
        if added is not value or "{{" not in added or isinstance(value, Finished):
            plain.append(added)
        else:
            within[factor] = None
            reading.append((factor, iter(_parts(added))))
    pieces.append("".join(plain))
    return pieces


def fill(template: Any, factors: Mapping[str, Any], sample_input: Any, step_answer: StepAnswer = no_steps) -> Any:
    """JSON with every placeholder in its texts substituted.

    A text that is nothing but one placeholder becomes the value itself, whatever its type; `{{factors}}` becomes all of them.
    """
    return Filling(factors, sample_input, step_answer).json(template)


class Filling:
    """Fills in everything that a target is asked with for one sample. However many texts that are, all of it together is
    bounded like a single one. Its methods raise Unfillable."""

    def __init__(self, factors: Mapping[str, Any], sample_input: Any, step_answer: StepAnswer = no_steps) -> None:
        self._factors = factors
        self._input = sample_input
        self._step_answer = step_answer
        self._characters = 0
        self._lengths: dict[str, int | None] = {}
        """Of values that are no text, by placeholder; None until one is used again."""

    def text(self, text: str) -> str:
        """A text, as `render` gives it."""
        rendered = filled_in(text, self._factors).render(self._input, self._step_answer)
        self._count(text, len(rendered))
        return rendered

    def json(self, template: Any) -> Any:
        """A template, as `fill` gives it."""
        match template:
            case str():
                return self._text_or_value(template)
            case Mapping():
                return {name: self.json(part) for name, part in template.items()}
            case list():
                return [self.json(part) for part in template]
        return template

    def _text_or_value(self, text: str) -> Any:
        whole = whole_placeholder(text)
        factor = None if whole is None else whole.removeprefix("factors.")
        if whole is None or (factor != whole and isinstance(self._factors.get(factor or "", ""), str)):
            return self.text(text)
        value = self._value(whole, factor)
        if isinstance(value, str):
            self._count(whole, len(value))
        elif whole not in self._lengths:
            self._lengths[whole] = None
        else:  # the same value many times is little in memory, but not where it is sent
            length = self._lengths[whole]
            if length is None:
                length = self._lengths[whole] = len(as_text(value))
            self._count(whole, length)
        return value

    def _value(self, whole: str, factor: str | None) -> Any:
        if whole == "factors":
            return dict(self._factors)
        if whole.startswith("steps."):
            return self._step_answer(whole)
        return _input_value(whole, self._input) if factor == whole else self._factors[factor or ""]

    def _count(self, text: str, characters: int) -> None:
        self._characters += characters
        if self._characters > LARGEST_RENDERED:
            raise RendersTooLong(next(iter(placeholders(text)), text))


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


def has_input(name: str, sample_input: Any) -> bool:
    """Whether a sample has what `input.name` names."""
    try:
        _input_value(name, sample_input)
    except UnknownPlaceholder:
        return False
    return True


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
