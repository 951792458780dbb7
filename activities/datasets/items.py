"""From what a file says to an item, checked."""

from __future__ import annotations

from collections.abc import Mapping
from json import JSONDecoder
from typing import Any

import pydantic

from activities.datasets.problems import DatasetError, shown
from ratchet.explanation import explain
from workflows.model.dataset import Item

LONGEST = 16 * 1024 * 1024
"""Bytes of one item. Larger content belongs behind a reference."""

NESTED_TOO_DEEPLY = "is nested too deeply; flatten it"


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number; write a finite number or null")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {repeated!r} is there twice; keep one")
    return value


STRICT_JSON = JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_each_key_once)
"""JSON by the letter: no NaN, and no key twice."""


def item_of(where: str, value: Mapping[str, Any], *, hint: str = "") -> Item:
    """The item that a mapping describes; `hint` is added to what is wrong with it."""
    try:
        return Item.model_validate(value)
    except pydantic.ValidationError as error:
        raise DatasetError(f"{where}: {'; '.join(explain(error))}{hint}") from None
    except RecursionError:
        raise DatasetError(f"{where}: {NESTED_TOO_DEEPLY}") from None


def mapping_of(where: str, value: Any, text: str) -> Mapping[str, Any]:
    """The value, which must be an object."""
    if not isinstance(value, dict):
        raise DatasetError(f'{where}: {shown(text)} is not an item; write an object such as {{"input": …, "expected": …}}')
    return value
