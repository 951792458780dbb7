"""Factors of a configuration, as `ratchet.optimize` takes them: each function writes down what a spec says in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Factor = dict[str, Any]
"""A factor as a spec has it."""

Scale = Literal["linear", "log"]


def frozen(value: Any) -> Factor:
    """Return a factor that never changes. A bare value is one, too, unless it is a mapping that looks like a factor."""
    return {"change": "frozen", "value": value}


def text(value: str, *, max_length: int | None = None) -> Factor:
    """Return a text that an optimizer may rewrite, such as a prompt."""
    return {"change": "text", "value": value} | _given(max_length=max_length)


def number(
    value: float,
    *,
    min: float,
    max: float,
    step: float | None = None,
    scale: Scale | None = None,
    when: Mapping[str, Any] | None = None,
) -> Factor:
    """Return a real number in a range; `scale="log"` where ratios count, `when` says with which values of others it counts."""
    return _structured("number", value, min=min, max=max, step=step, scale=scale, when=when)


def integer(
    value: int,
    *,
    min: int,
    max: int,
    step: int | None = None,
    scale: Scale | None = None,
    when: Mapping[str, Any] | None = None,
) -> Factor:
    """Return a whole number in a range."""
    return _structured("integer", value, min=min, max=max, step=step, scale=scale, when=when)


def choice(value: Any, choices: Sequence[Any], *, when: Mapping[str, Any] | None = None) -> Factor:
    """Return one of several values; `value` is where the run begins."""
    return _structured("choice", value, choices=list(choices), when=when)


def flag(value: bool, *, when: Mapping[str, Any] | None = None) -> Factor:
    """Return a yes or no."""
    return _structured("flag", value, when=when)


def order(value: Sequence[Any], *, when: Mapping[str, Any] | None = None) -> Factor:
    """Return an order of items; every candidate is a permutation of it."""
    return _structured("order", list(value), when=when)


def json(value: Any, schema: Mapping[str, Any]) -> Factor:
    """Return any JSON value that the JSON Schema accepts."""
    return _structured("json", value, schema=dict(schema))


def _structured(kind: str, value: Any, **more: Any) -> Factor:
    return {"change": "structured", "type": kind, "value": value} | _given(**more)


def _given(**options: Any) -> Factor:
    return {name: value for name, value in options.items() if value is not None}
