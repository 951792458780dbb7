"""From what a file says to an item, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import JSONDecoder
from typing import Any

import pydantic

from activities.datasets.dataset_errors import DatasetError, shown
from ratchet._formats.strict_json import each_key_once, refuse_constant, whole_number
from ratchet._text.explanation import explain
from workflows.model.spec.dataset import Item, SplitName

LONGEST = 16 * 1024 * 1024
"""Bytes of one item. Larger content belongs behind a reference."""

NESTED_TOO_DEEPLY = "is nested too deeply; flatten it"
NOT_STRICT = "has a key twice, or a number that is none; correct it"
NO_ITEM = 'is not an item; write an object such as {"input": …, "expected": …}'


MOST_VALUES = 1_000_000
"""Of one item: an empty list takes three bytes to write, and twenty times as many to hold."""

TOO_MANY_VALUES = f"has more than {MOST_VALUES:,} values; keep large content behind a reference"

STRICT_JSON = JSONDecoder(parse_constant=refuse_constant, parse_int=whole_number, object_pairs_hook=each_key_once)
"""JSON by the letter: no NaN, and no key twice."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{},]', re.DOTALL)


def refuse_too_many_values(where: str, text: str, start: int = 0) -> None:
    """Raise DatasetError for an object that begins there and has more values than an item may have, before it is read."""
    if text.count(",", start) + text.count("[", start) + text.count("{", start) <= MOST_VALUES:
        return
    values = depth = 0
    for token in _TOKEN.finditer(text, start):
        found = token[0][0]
        values += found in ",[{"
        depth += (found in "[{") - (found in "]}")
        if values > MOST_VALUES:
            raise DatasetError(f"{where}: {TOO_MANY_VALUES}")
        if depth <= 0 and found in "]}":
            return


def item_of(where: str, value: Mapping[str, Any], *, hint: str = "") -> Item:
    """The item that a mapping describes; `hint` is added to what is wrong with it."""
    try:
        return Item.model_validate(value)
    except pydantic.ValidationError as error:
        raise DatasetError(f"{where}: {'; '.join(explain(error))}{hint}", unquoted=f"{where}: {_parts(error)}") from None
    except RecursionError:
        raise DatasetError(f"{where}: {NESTED_TOO_DEEPLY}") from None


def in_split(where: str, item: Item, split: SplitName) -> Item:
    """The item in the split that it is given for."""
    try:
        return item.given_for(split)
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from None


def mapping_of(where: str, value: Any, text: str) -> Mapping[str, Any]:
    """The value, which must be an object."""
    if not isinstance(value, dict):
        raise DatasetError(f"{where}: {shown(text)} {NO_ITEM}", unquoted=f"{where}: {NO_ITEM}")
    return value


def _parts(error: pydantic.ValidationError) -> str:
    """Which parts of an item are wrong, in words that are ours and not the file's."""
    problems = error.errors(include_url=False, include_input=False)
    found = {str(next(iter(problem["loc"]), "")): problem["type"] for problem in problems}
    known = sorted(found.keys() & Item.model_fields.keys())
    foreign = ["has a key that no item has"] if found.keys() - Item.model_fields.keys() else []
    told = [f"{part}: {'is missing; add it' if found[part] == 'missing' else 'is of no use; correct it'}" for part in known]
    return "; ".join([*told, *foreign])
