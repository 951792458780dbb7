"""Factors: named values of a configuration, and how each may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from ratchet.domains import ChoiceDomain, FlagDomain, IntegerDomain, NumberDomain, OrderDomain
from workflows.model.frozen import SpecPart
from workflows.model.values import LONGEST_TEXT, CanonicalMapping, CanonicalValue, canonical_text

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


class NumberFactor(NumberDomain):
    """A real number in a range."""

    change: Literal["structured"]


class IntegerFactor(IntegerDomain):
    """A whole number in a range."""

    change: Literal["structured"]


class ChoiceFactor(ChoiceDomain):
    """One of several values."""

    change: Literal["structured"]


class OrderFactor(OrderDomain):
    """An order of given items; every candidate is a permutation."""

    change: Literal["structured"]


class FlagFactor(FlagDomain):
    """Yes or no."""

    change: Literal["structured"]


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
