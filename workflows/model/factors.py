"""Factors: named values of a configuration, and how each may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from workflows.model.frozen import SpecPart
from workflows.model.values import LONGEST_TEXT, CanonicalInteger, CanonicalMapping, CanonicalValue, canonical_text
from workflows.rules.canonical import canonical_json

LARGEST_CONFIGURATION = 256 * 1024
"""Bytes of canonical JSON. Larger values belong behind a reference: a path or a key the target resolves."""

Configuration = dict[str, JsonValue]
"""Every factor's name with its value, in canonical form."""


class FrozenFactor(SpecPart):
    """A factor that never changes."""

    change: Literal["frozen"] = "frozen"
    value: CanonicalValue
    """The constant value."""


class TextFactor(SpecPart):
    """A factor of free text that an optimizer may rewrite."""

    change: Literal["text"]
    value: Annotated[str, AfterValidator(canonical_text)]
    """The initial text. Placeholders such as `{{input.name}}` survive every rewrite, or the rewrite is rejected."""
    max_length: Annotated[int, Field(ge=1, le=LONGEST_TEXT)] = 20_000
    """The longest text a candidate may have, in characters."""

    @model_validator(mode="after")
    def _initial_value_is_allowed(self) -> TextFactor:
        if not self.value.strip():
            raise ValueError("Factor value cannot be empty")
        if len(self.value) > self.max_length:
            raise ValueError(f"Factor value exceeds max length {self.max_length} (was {len(self.value)})")
        return self


class NumberFactor(SpecPart):
    """A real number in a range."""

    change: Literal["structured"]
    type: Literal["number"]
    value: float
    """The initial number."""
    min: float
    """The smallest number allowed."""
    max: float
    """The largest number allowed."""
    step: Annotated[float, Field(gt=0)] | None = None
    """How far one mutation moves it. Default: a tenth of the range."""

    @model_validator(mode="after")
    def _in_range(self) -> NumberFactor:
        if not self.min <= self.value <= self.max:
            raise ValueError(f"value {self.value} is outside min {self.min} … max {self.max}")
        return self


class IntegerFactor(SpecPart):
    """A whole number in a range."""

    change: Literal["structured"]
    type: Literal["integer"]
    value: CanonicalInteger
    """The initial number."""
    min: CanonicalInteger
    """The smallest number allowed."""
    max: CanonicalInteger
    """The largest number allowed."""
    step: Annotated[CanonicalInteger, Field(gt=0)] | None = None
    """How far one mutation moves it. Default: a tenth of the range, at least 1."""

    @model_validator(mode="after")
    def _in_range(self) -> IntegerFactor:
        if not self.min <= self.value <= self.max:
            raise ValueError(f"value {self.value} is outside min {self.min} … max {self.max}")
        return self


class ChoiceFactor(SpecPart):
    """One of several values."""

    change: Literal["structured"]
    type: Literal["choice"]
    value: CanonicalValue
    """The initial choice."""
    choices: Annotated[list[CanonicalValue], Field(min_length=1)]
    """All values allowed."""

    @model_validator(mode="after")
    def _is_a_choice(self) -> ChoiceFactor:
        if len({canonical_json(choice) for choice in self.choices}) != len(self.choices):
            raise ValueError("choices contains the same value twice; name each once")
        if not is_one_of(self.value, self.choices):
            raise ValueError(f"value {self.value!r} is not one of choices; add it or start from one of them")
        return self


class OrderFactor(SpecPart):
    """An order of given items; every candidate is a permutation."""

    change: Literal["structured"]
    type: Literal["order"]
    value: Annotated[list[CanonicalValue], Field(min_length=1)]
    """The initial order."""

    @model_validator(mode="after")
    def _distinct(self) -> OrderFactor:
        if len({canonical_json(item) for item in self.value}) != len(self.value):
            raise ValueError("value contains the same item twice; an order needs distinct items")
        return self


class FlagFactor(SpecPart):
    """Yes or no."""

    change: Literal["structured"]
    type: Literal["flag"]
    value: Annotated[bool, Field(strict=True)]
    """The initial setting."""


class JsonFactor(SpecPart):
    """Any JSON value that a schema accepts."""

    change: Literal["structured"]
    type: Literal["json"]
    value: CanonicalValue
    """The initial value."""
    json_schema: Annotated[CanonicalMapping, Field(alias="schema")]
    """The JSON Schema every candidate value must satisfy."""

    model_config = SpecPart.model_config | {"populate_by_name": True, "serialize_by_alias": True}


StructuredFactor = Annotated[
    NumberFactor | IntegerFactor | ChoiceFactor | OrderFactor | FlagFactor | JsonFactor, Field(discriminator="type")
]
Factor = Annotated[FrozenFactor | TextFactor | StructuredFactor, Field(discriminator="change")]


def is_one_of(value: Any, choices: list[JsonValue]) -> bool:
    """Whether a value is among the choices; `1`, `1.0` and `True` are told apart as JSON does."""
    return canonical_json(value) in {canonical_json(choice) for choice in choices}


def as_factor_definition(value: Any) -> Any:
    """A mapping with `change`, or with `value` alone, defines a factor; anything else is the value of a frozen one."""
    if isinstance(value, SpecPart):
        return value
    if isinstance(value, Mapping):
        if "change" in value:
            return value
        if set(value) == {"value"}:
            return {"change": "frozen", **value}
    return {"change": "frozen", "value": value}
