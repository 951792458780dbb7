"""The sections of a prompt: text, tools and few-shot examples, each with the value that an override replaces."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, TypeAdapter, ValidationError, model_validator

from ratchet._formats.canonical import content_hash
from ratchet._frozen import SpecPart
from ratchet._text.few_shot_examples import BETWEEN_EXAMPLES, answered, labelled
from ratchet._text.placeholders import Unfillable, as_text, filled_in, placeholders
from ratchet._values import LONGEST_TEXT, CanonicalMapping, CanonicalValue, Text
from ratchet.prompts.names import SectionPath

SECTION_TEXT = 20_000
MOST_EXAMPLES = 1_000

TOOL_NAME = r"^[A-Za-z0-9_-]{1,64}$"
"""What the providers of models take as the name of a function."""

NO_ARGUMENTS: dict[str, JsonValue] = {"type": "object", "properties": {}}


class TextSection(SpecPart):
    """A part of the prompt's text."""

    kind: Literal["text"] = "text"
    path: SectionPath
    """Where it belongs, e.g. `rules/labels`; unique within the prompt."""
    body: Text
    """The text. `{{input.name}}` and `{{factors.name}}` stand for what is filled in."""
    accepts_overrides: bool = True
    """Whether its text may be replaced; otherwise it is frozen."""
    max_length: Annotated[int, Field(ge=1, le=LONGEST_TEXT)] = SECTION_TEXT
    """The longest text an override may have, in characters."""

    @model_validator(mode="after")
    def _says_something(self) -> TextSection:
        _refuse_text(self.body, self.max_length)
        return self

    @property
    def value(self) -> JsonValue:
        return self.body

    @cached_property
    def hash(self) -> str:
        """sha256 of the text as it is written."""
        return hashlib.sha256(self.body.encode()).hexdigest()

    @property
    def contract(self) -> JsonValue:
        """What stays when the value is replaced."""
        return None

    def problem(self, value: JsonValue) -> str | None:
        """Why the section does not take a value, if it does not."""
        return _problem_of_text(self.body, value, self.max_length)

    def as_factor(self, value: JsonValue) -> dict[str, JsonValue]:
        return _text_factor(value, self.accepts_overrides, self.max_length)

    def texts(self, value: JsonValue) -> list[str]:
        return [str(value)]

    def shown(self, value: JsonValue) -> str | None:
        return str(value)


class ToolSection(SpecPart):
    """A tool that the model may call. What may be replaced is its description; name and parameters are its contract."""

    kind: Literal["tool"]
    path: SectionPath
    """Where it belongs, e.g. `tools/lookup`; unique within the prompt."""
    name: Annotated[str, Field(pattern=TOOL_NAME)]
    """What the model calls it."""
    description: Text
    """What it does, in words for the model."""
    parameters: CanonicalMapping = Field(default_factory=lambda: dict(NO_ARGUMENTS))
    """The JSON Schema of its arguments."""
    accepts_overrides: bool = True
    """Whether its description may be replaced; otherwise it is frozen."""
    max_length: Annotated[int, Field(ge=1, le=LONGEST_TEXT)] = SECTION_TEXT
    """The longest description an override may have, in characters."""

    @model_validator(mode="after")
    def _says_something(self) -> ToolSection:
        _refuse_text(self.description, self.max_length)
        return self

    @property
    def value(self) -> JsonValue:
        return self.description

    @cached_property
    def hash(self) -> str:
        return content_hash({"name": self.name, "description": self.description, "parameters": self.parameters})

    @property
    def contract(self) -> JsonValue:
        return {"name": self.name, "parameters": self.parameters}

    def problem(self, value: JsonValue) -> str | None:
        return _problem_of_text(self.description, value, self.max_length)

    def as_factor(self, value: JsonValue) -> dict[str, JsonValue]:
        return _text_factor(value, self.accepts_overrides, self.max_length)

    def texts(self, value: JsonValue) -> list[str]:
        return [str(value)]

    def shown(self, value: JsonValue) -> str | None:
        """Tools are handed to the model beside the text."""
        return None


class Example(SpecPart):
    """An input and the answer it should get."""

    input: CanonicalValue
    output: CanonicalValue


class ExampleSection(SpecPart):
    """Few-shot examples."""

    kind: Literal["example"]
    path: SectionPath
    """Where they belong, e.g. `examples`; unique within the prompt."""
    examples: Annotated[list[Example], Field(max_length=MOST_EXAMPLES)]
    """The examples, in order."""
    template: Text | None = None
    """How an example's input is written: like the message that the model will get, such as `Review: {{input.text}}` and, on the
    next line, `Sentiment:`. The answer follows. Default: `Input: …`, and `Output: …` on the next line."""
    accepts_overrides: bool = True
    """Whether they may be replaced; otherwise they are frozen."""

    @model_validator(mode="after")
    def _can_be_written(self) -> ExampleSection:
        names = () if self.template is None else placeholders(self.template)
        if self.template is not None and not names:
            raise ValueError("template shows nothing of an example; name its input, such as {{input.text}}")
        stranger = next((name for name in names if name != "input" and not name.startswith("input.")), None)
        if stranger is not None:
            raise ValueError(
                f"template: placeholder {{{{{stranger}}}}} is unknown; an example fills {{{{input}}}} and its parts"
            )
        problem = self._unfilled(self.value)
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def value(self) -> JsonValue:
        return [example.model_dump(mode="json") for example in self.examples]

    @cached_property
    def hash(self) -> str:
        return content_hash(self.value if self.template is None else {"examples": self.value, "template": self.template})

    @property
    def contract(self) -> JsonValue:
        return self.template

    def problem(self, value: JsonValue) -> str | None:
        try:
            _EXAMPLES.validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            return (
                f"is no list of examples: {'.'.join(map(str, first['loc']))} {first['msg']}; give [{{input: …, output: …}}, …]"
            )
        return self._unfilled(value)

    def _unfilled(self, value: JsonValue) -> str | None:
        try:
            self.pairs(value)
        except Unfillable as error:
            return f"cannot be written by its template: {error}"
        return None

    def as_factor(self, value: JsonValue) -> dict[str, JsonValue]:
        if not self.accepts_overrides:
            return {"value": value, "change": "frozen"}
        return {"value": value, "change": "structured", "type": "json", "schema": self._schema}

    @property
    def _schema(self) -> dict[str, JsonValue]:
        """Of its values. What the template names, every example has."""
        names = [name.removeprefix("input.") for name in placeholders(self.template or "") if name != "input"]
        needed = sorted({name for name in names if "." not in name})
        given: dict[str, JsonValue] = {"type": "object", "required": list[JsonValue](needed)} if needed else {}
        return {
            "type": "array",
            "maxItems": MOST_EXAMPLES,
            "items": {
                "type": "object",
                "properties": {"input": given, "output": {}},
                "required": ["input", "output"],
                "additionalProperties": False,
            },
        }

    def pairs(self, value: Any) -> list[tuple[str, str]]:
        """Examples as texts: what asks, and the answer. Raises Unfillable."""
        return [(self._asked(example["input"]), as_text(example["output"])) for example in value]

    def _asked(self, given: Any) -> str:
        return as_text(given) if self.template is None else filled_in(self.template, {}).render(given)

    def texts(self, value: JsonValue) -> list[str]:
        return [text for example in self.pairs(value) for text in example]

    def shown(self, value: JsonValue) -> str | None:
        pairs = ((labelled(asked) if self.template is None else asked, answer) for asked, answer in self.pairs(value))
        return BETWEEN_EXAMPLES.join(answered(asked, answer) for asked, answer in pairs) or None


Section = Annotated[TextSection | ToolSection | ExampleSection, Field(discriminator="kind")]

_EXAMPLES = TypeAdapter(Annotated[list[Example], Field(max_length=MOST_EXAMPLES)])


def as_section(value: Any) -> Any:
    """A section that names no kind is text."""
    return {"kind": "text", **value} if isinstance(value, dict) and "kind" not in value else value


def _refuse_text(text: str, max_length: int) -> None:
    if not text.strip():
        raise ValueError("the text is empty; write one, or leave the section out")
    if len(text) > max_length:
        raise ValueError(f"the text has {len(text):,} characters, more than its max_length of {max_length:,}")


def _problem_of_text(authored: str, value: JsonValue, max_length: int) -> str | None:
    if not isinstance(value, str):
        return "is not text"
    if not value.strip():
        return "is empty"
    if len(value) > max_length:
        return f"has {len(value):,} characters; at most {max_length:,} are allowed"
    known, kept = placeholders(authored), placeholders(value)
    for name in known:
        if name not in kept:
            return f"lost placeholder {{{{{name}}}}}; keep it"
    for name in kept:
        if name not in known:
            return f"has placeholder {{{{{name}}}}}, which the authored text has not; nothing would fill it"
    return None


def _text_factor(value: JsonValue, accepts_overrides: bool, max_length: int) -> dict[str, JsonValue]:
    if not accepts_overrides:
        return {"value": value, "change": "frozen"}
    return {"value": value, "change": "text", "max_length": max_length}
