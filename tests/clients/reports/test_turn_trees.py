"""The turns of an agent on a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from clients.reports.text.answers import answer_text
from store.read.rows.item_rows import ItemRow

TRACE: dict[str, Any] = {
    "ended": "limit: turns",
    "turns": [
        {"said": "I look.", "calls": [
            {"tool": "look_up", "arguments": {"word": "a"}, "result": {"found": [1, 2]}},
            {"tool": "look_up", "arguments": {}, "error": "raised\x1b[31m KeyError"},
        ]},
        {"user": "And now?"},
        {"said": None, "calls": [{"tool": "book", "arguments": {"room": 3}}]},
    ],
}  # fmt: skip
SHOWN = """\
  Turn 1      I look.
              ├ look_up a → {"found": [1, 2]}
              └ look_up {} → error: raised␛[31m KeyError
  User        And now?
  Turn 3      └ book {"room": 3} → not called
  Ended       limit: turns
"""


def row(trace: Any) -> ItemRow:
    return ItemRow(
        position=0, replicate=0, item_id="s0", item_hash="h", input="?", expected=None, weight=1, tags=(), status="failed",
        passed=False, scores={}, output=None, error=None, feedback="", tokens=1, cost=0, latency_ms=None, ttft_ms=None,
        trace=trace, reused_from=None, created_at=datetime.now(UTC), printed=None, echoed=False,
    )  # fmt: skip


def test_turns_are_a_tree_with_a_branch_for_each_call() -> None:
    shown = answer_text(row(TRACE), several=False, width=100)
    assert "\x1b" not in shown
    assert SHOWN.splitlines()[0] in shown
    for line in SHOWN.splitlines():
        if "raised" not in line:
            assert line in shown


@pytest.mark.parametrize("trace", [None, "text", {"steps": []}, {"turns": "x"}, {"turns": [1, None]}])
def test_what_is_no_trace_of_turns_shows_none(trace: Any) -> None:
    assert "Turn" not in answer_text(row(trace), several=False, width=100)
