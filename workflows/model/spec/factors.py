"""Factors: named values of a configuration, and how each may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from ratchet._frozen import SpecPart
from ratchet._values import LONGEST_TEXT, CanonicalMapping, CanonicalValue, canonical_text
from ratchet.domains import ChoiceDomain, FlagDomain, IntegerDomain, NumberDomain, OrderDomain

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


class Conditional(SpecPart):
    """A factor that may count only together with certain values of others."""

    change: Literal["structured"]
    when: dict[str, list[CanonicalValue]] | None = None
    """Counts only while other factors have one of these values: `{retriever: [bm25, hybrid]}`. Elsewhere `search` leaves it at
    its initial value, so that configurations that differ in nothing that counts are not tried twice. Default: it always
    counts."""

    @field_validator("when", mode="before")
    @classmethod
    def _one_value_is_a_list_of_one(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: values if isinstance(values, list) else [values] for name, values in value.items()}


Scale = Literal["linear", "log"]
"""Whether equal distances or equal ratios of a number are equally large changes."""


class NumberFactor(NumberDomain, Conditional):
    """A real number in a range."""

    scale: Scale = "linear"
    """`log` where ratios count, as with learning rates; `min` is more than 0 then."""

    @model_validator(mode="after")
    def _has_logarithms(self) -> NumberFactor:
        return _with_logarithms(self)


class IntegerFactor(IntegerDomain, Conditional):
    """A whole number in a range."""

    scale: Scale = "linear"
    """`log` where ratios count; `min` is more than 0 then."""

    @model_validator(mode="after")
    def _has_logarithms(self) -> IntegerFactor:
        return _with_logarithms(self)


_Number = TypeVar("_Number", NumberFactor, IntegerFactor)


def _with_logarithms(factor: _Number) -> _Number:
    if factor.scale == "log" and factor.min <= 0:
        raise ValueError(f"min is {factor.min}, which has no logarithm; raise it, or drop scale: log")
    return factor


class ChoiceFactor(ChoiceDomain, Conditional):
    """One of several values."""


class OrderFactor(OrderDomain, Conditional):
    """An order of given items; every candidate is a permutation."""


class FlagFactor(FlagDomain, Conditional):
    """Yes or no."""


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
