"""The turns of an agent on a terminal: what it said, and below that what it called and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from workflows.rules.scoring.first_look import readable

MOST_TURNS: Final = 30
"""That are shown of one answer."""

LONGEST_PART: Final = 160
"""Characters of arguments, results and words that are shown."""


def turn_texts(trace: Any) -> Iterator[tuple[str, str]]:
    """Each turn as its label and its text, a tree with a branch for each call; none where the trace has no turns."""
    told = trace.get("turns") if isinstance(trace, Mapping) else None
    turns = [turn for turn in told if isinstance(turn, Mapping)] if isinstance(told, list) else []
    for place, turn in enumerate(turns[:MOST_TURNS]):
        if "user" in turn:
            yield "User", _part(turn["user"])
        else:
            yield f"Turn {place + 1}", "\n".join(_rows(turn))
    if len(turns) > MOST_TURNS:
        yield "…", f"{len(turns) - MOST_TURNS} more turns; --json shows all"
    ended = trace.get("ended") if turns else None
    if isinstance(ended, str) and ended != "answered":
        yield "Ended", ended


def _rows(turn: Mapping[str, Any]) -> Iterable[str]:
    given = turn.get("calls")
    calls = [call for call in given if isinstance(call, Mapping)] if isinstance(given, list) else []
    if turn.get("said") or not calls:
        yield _part(turn.get("said"))
    for place, call in enumerate(calls):
        branch = "└" if place == len(calls) - 1 else "├"
        yield f"{branch} {_part(call.get('tool'))} {_part(call.get('arguments') or {})} → {_outcome(call)}"


def _outcome(call: Mapping[str, Any]) -> str:
    if "error" in call:
        return f"error: {_part(call['error'])}"
    return _part(call["result"]) if "result" in call else "not called"


def _part(value: Any) -> str:
    text = " ".join(readable(value).split())
    return text if len(text) <= LONGEST_PART else f"{text[: LONGEST_PART - 1]}…"
