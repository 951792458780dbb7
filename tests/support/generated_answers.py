"""Generated answers: what a protocol says, changed in a few places into whatever JSON, or bytes, can hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

Generated = TypeVar("Generated")

_HUGE: Final = st.integers(min_value=10**290, max_value=10**320)
_ODD: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    _HUGE,
    _HUGE.map(lambda value: -value),
    st.floats(),
    st.sampled_from([1e308, -1e308, 1e160, 5e-324, float("nan"), float("inf")]),
    st.text(max_size=30),
    st.sampled_from(["\ud800", "\x00", "\x1b[2J", "{{input}}", "1e400", "NaN", "a" * 20_000]),
)
ODD: Final[st.SearchStrategy[Any]] = st.one_of(
    _ODD,
    st.recursive(_ODD, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    st.integers(min_value=90, max_value=900).map(lambda depth: _nested(depth)),
)
"""Any value that JSON can carry, and some that only Python's JSON writes."""


def _nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inside for place in _places(part, (*path, key)))]


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    key, rest = path[0], path[1:]
    if isinstance(value, dict) and key in value:
        return {**value, key: _with(value[key], rest, new)}
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return [*value[:key], _with(value[key], rest, new), *value[key + 1 :]]
    return value


@st.composite
def changed(draw: st.DrawFn, template: Any) -> Any:
    """The template with one to three of its places replaced."""
    value = template
    for _ in range(draw(st.integers(1, 3))):
        value = _with(value, draw(st.sampled_from(_places(value)[:60])), draw(ODD))
    return value


def as_bytes(value: Any) -> bytes:
    """As `json` writes it, with whatever it lets through."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes as they are, cut off, or with some of them replaced."""
    data = draw(whole)
    match draw(st.sampled_from(["whole", "whole", "whole", "cut", "replaced"])):
        case "cut":
            return data[: draw(st.integers(0, max(0, len(data) - 1)))]
        case "replaced":
            at = draw(st.integers(0, max(0, len(data) - 1)))
            return data[:at] + draw(st.binary(max_size=8)) + data[at + 4 :]
    return data


def examples(strategy: st.SearchStrategy[Generated], number: int, number_of_seed: int) -> list[Generated]:
    """So many values, the same every time."""
    found: list[Generated] = []

    @seed(number_of_seed)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Generated) -> None:
        found.append(value)

    run: Callable[[], None] = collect
    while len(found) < number:
        run()
    return found[:number]
