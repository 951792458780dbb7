"""Typed values and what each may be: numbers in a range, choices, orders, flags.

Factors of a spec and parameters of a prompt are made of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from ratchet._formats.canonical import canonical_json
from ratchet._frozen import SpecPart
from ratchet._values import CanonicalInteger, CanonicalValue


class NumberDomain(SpecPart):
    """A real number in a range."""

    type: Literal["number"]
    value: float
    """The initial number."""
    min: float
    """The smallest number allowed."""
    max: float
    """The largest number allowed."""
    step: Annotated[float, Field(gt=0)] | None = None
    """How far one mutation moves it. Default: a tenth of the range. A search keeps to whole steps from the initial number,
    where a step is given."""

    @model_validator(mode="after")
    def _in_range(self) -> NumberDomain:
        if not self.min <= self.value <= self.max:
            raise ValueError(f"value {self.value} is outside min {self.min} … max {self.max}")
        return self


class IntegerDomain(SpecPart):
    """A whole number in a range."""

    type: Literal["integer"]
    value: CanonicalInteger
    """The initial number."""
    min: CanonicalInteger
    """The smallest number allowed."""
    max: CanonicalInteger
    """The largest number allowed."""
    step: Annotated[CanonicalInteger, Field(gt=0)] | None = None
    """How far one mutation moves it. Default: a tenth of the range, at least 1. A search keeps to whole steps from the initial
    number, where a step is given."""

    @model_validator(mode="after")
    def _in_range(self) -> IntegerDomain:
        if not self.min <= self.value <= self.max:
            raise ValueError(f"value {self.value} is outside min {self.min} … max {self.max}")
        return self


class ChoiceDomain(SpecPart):
    """One of several values."""

    type: Literal["choice"]
    value: CanonicalValue
    """The initial choice."""
    choices: Annotated[list[CanonicalValue], Field(min_length=1)]
    """All values allowed."""

    @model_validator(mode="after")
    def _is_a_choice(self) -> ChoiceDomain:
        if len({canonical_json(choice) for choice in self.choices}) != len(self.choices):
            raise ValueError("choices contains the same value twice; name each once")
        if not is_one_of(self.value, self.choices):
            raise ValueError(f"value {self.value!r} is not one of choices; add it or start from one of them")
        return self


class OrderDomain(SpecPart):
    """An order of given items; every other value is a permutation."""

    type: Literal["order"]
    value: Annotated[list[CanonicalValue], Field(min_length=1)]
    """The initial order."""

    @model_validator(mode="after")
    def _distinct(self) -> OrderDomain:
        if len({canonical_json(item) for item in self.value}) != len(self.value):
            raise ValueError("value contains the same item twice; an order needs distinct items")
        return self


class FlagDomain(SpecPart):
    """Yes or no."""

    type: Literal["flag"]
    value: Annotated[bool, Field(strict=True)]
    """The initial setting."""


Domain = NumberDomain | IntegerDomain | ChoiceDomain | OrderDomain | FlagDomain


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a value is not of a domain."""

    problem: str
    wrong_kind: bool
    """Whether it is not even of the right type; otherwise it is out of range."""


def misfit(domain: Domain, value: Any) -> Misfit | None:
    """Why a value cannot be taken, if it cannot."""
    match domain:
        case NumberDomain() | IntegerDomain():
            return _misfit_number(domain, value)
        case ChoiceDomain():
            if not is_one_of(value, domain.choices):
                return Misfit(f"{shown(value)} is not one of {shown(domain.choices)}", wrong_kind=False)
        case OrderDomain():
            if not isinstance(value, list) or sorted(map(canonical_json, value)) != sorted(map(canonical_json, domain.value)):
                return Misfit(f"{shown(value)} is not a permutation of {shown(domain.value)}", wrong_kind=False)
        case FlagDomain():
            if not isinstance(value, bool):
                return Misfit(f"{shown(value)} is neither true nor false", wrong_kind=True)
    return None


def _misfit_number(domain: NumberDomain | IntegerDomain, value: Any) -> Misfit | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return Misfit(f"{shown(value)} is not a number", wrong_kind=True)
    if isinstance(domain, IntegerDomain) and not float(value).is_integer():
        return Misfit(f"{shown(value)} is not a whole number", wrong_kind=True)
    if not domain.min <= value <= domain.max:
        return Misfit(f"{shown(value)} is outside {domain.min} … {domain.max}", wrong_kind=False)
    return None


def is_one_of(value: Any, choices: list[JsonValue]) -> bool:
    """Whether a value is among the choices; `1`, `1.0` and `True` are told apart as JSON does."""
    return canonical_json(value) in {canonical_json(choice) for choice in choices}


def shown(value: Any) -> str:
    """A value as a message quotes it."""
    text = canonical_json(value)
    return text if len(text) <= 120 else text[:119] + "…"
