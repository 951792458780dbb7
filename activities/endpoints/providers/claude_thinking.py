"""How much a Claude is to think, in the words that its generation knows; whatever else it is told, it refuses."""

from __future__ import annotations

import re
from typing import Any, Final

from workflows.rules.decisions.call_bounds import LONGEST_ANSWER

_NAME: Final = re.compile(r"claude-(?:([a-z]+)-)?(\d)(?:[-.](\d)(?!\d))?(?:-([a-z]+))?")
_FIRST_ADAPTIVE: Final = (4, 6)
"""The first version that decides by itself how much it thinks. Those before it are given a number of tokens."""

_FIRST_THAT_THINKS_UNASKED: Final = (5, 0)
_NOT_THINKING: Final = {
    ("opus", (5, 0)): "disabled",
    ("sonnet", (5, 0)): "disabled",
    ("haiku", (5, 5)): "disabled",
    ("sonnet", (5, 5)): "between_tools",
}
"""How those that think unasked are told not to. All others of them always think, and refuse to be told."""

_TOKENS: Final = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576, "xhigh": 30_720, "max": 30_720}
_FEWEST_TOKENS: Final = 1024
"""Fewer to think are refused."""

_LEAST: Final = "low"
_EFFORTS: Final = {"minimal": _LEAST}
"""What Anthropic calls otherwise."""


def thinking_of(model: str, effort: str, limit: Any) -> tuple[dict[str, Any] | None, str | None]:
    """Return `thinking` and `effort` of a request whose answer may have `limit` tokens; None for what it is not to say.

    A model whose name tells no version is taken for a new one.
    """
    family, version = _family_and_version(model)
    if effort == "none":
        return _not_thinking(family, version)
    if version is not None and version < _FIRST_ADAPTIVE and effort in _TOKENS:
        return _counted(_TOKENS[effort], limit if isinstance(limit, int) and limit > 0 else LONGEST_ANSWER), None
    return {"type": "adaptive"}, _EFFORTS.get(effort, effort)


def _not_thinking(family: str, version: tuple[int, int] | None) -> tuple[dict[str, Any] | None, str | None]:
    if version is not None and version < _FIRST_THAT_THINKS_UNASKED:
        return None, None
    kind = _NOT_THINKING.get((family, version or (0, 0)))
    return (None, _LEAST) if kind is None else ({"type": kind}, None)


def _counted(tokens: int, limit: int) -> dict[str, Any] | None:
    """So many tokens to think, of which a quarter of the answer is kept free; None where too few are left."""
    left = min(tokens, limit - limit // 4)
    return {"type": "enabled", "budget_tokens": left} if left >= _FEWEST_TOKENS else None


def _family_and_version(model: str) -> tuple[str, tuple[int, int] | None]:
    found = _NAME.search(model)
    if found is None:
        return "", None
    return found[1] or found[4] or "", (int(found[2]), int(found[3] or 0))
