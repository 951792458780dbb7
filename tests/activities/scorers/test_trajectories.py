"""Scorers of how an agent came to its answer."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from activities.plugins.loader import Plugins
from activities.scorers import ScorerTools, score
from ratchet import Output, Sample
from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.rules.scoring.objective_score import ScoringFailed

CALLS = [("find", {"name": "ada", "page": 1}), ("find", {"name": "bob"}), ("book", {"room": 3})]
TRACE = {"ended": "answered", "turns": [{"said": None, "calls": [{"tool": tool, "arguments": a}]} for tool, a in CALLS]}
BOB = {"tool": "find", "arguments": {"name": "bob"}}


async def graded(scorer: dict[str, Any], expected: Any = None, trace: Any = TRACE) -> tuple[float, str | None]:
    read = TypeAdapter(Scorer).validate_python(scorer)
    [grade] = await score([read], Output("done", trace=trace), Sample("s0", "?", expected), ScorerTools(Plugins()))
    return grade.score.value, grade.score.reason


@pytest.mark.parametrize(
    ("order", "calls", "value", "told"),
    [
        ("any", ["book", "find"], 1.0, None),
        ("any", ["find", "find", "find"], 2 / 3, "did not call find, of find, find, find that are wanted"),
        ("any", ["find", BOB], 1.0, None),
        (
            "any",
            [{"tool": "book", "arguments": {"room": 4}}],
            0.0,
            'called find({"name":"ada","page":1}), find({"name":"bob"})',
        ),
        ("same", ["find", "book"], 1.0, None),
        ("same", ["book", "find"], 0.5, "did not call find, of book, find that are wanted in this order"),
        ("exact", ["find", BOB, "book"], 1.0, None),
        ("exact", ["find", "book"], 0.0, "wanted were exactly find, book"),
    ],
)
async def test_the_calls_that_are_wanted(order: str, calls: list[Any], value: float, told: str | None) -> None:
    found, reason = await graded({"kind": "tools_called", "calls": calls, "order": order})
    assert found == pytest.approx(value)
    assert (reason is None) if told is None else told in (reason or "")


@pytest.mark.parametrize("expected", [["find", BOB], {"tools": ["find", BOB], "answer": "x"}])
async def test_a_sample_may_say_which_calls_it_expects(expected: Any) -> None:
    assert (await graded({"kind": "tools_called"}, expected))[0] == 1.0


async def test_forbidden_calls_and_too_many_steps() -> None:
    assert await graded({"kind": "tools_avoided", "calls": ["delete"]}) == (1.0, None)
    value, reason = await graded({"kind": "tools_avoided", "calls": ["delete", {"tool": "book", "arguments": {"room": 3}}]})
    assert (value, reason) == (0.0, 'called book({"room":3}), which is forbidden')
    assert (await graded({"kind": "steps"}))[0] == 3.0
    value, reason = await graded({"kind": "steps", "count": "tool_calls", "at_most": 2})
    assert (value, reason) == (0.0, "took 3 calls of tools, at most 2 calls of tools are wanted")


async def test_an_answer_without_turns_has_no_trajectory() -> None:
    with pytest.raises(ScoringFailed, match="no trace of turns, which scorer 'steps' needs"):
        await graded({"kind": "steps"}, trace={"steps": []})
    with pytest.raises(ScoringFailed, match="names no calls"):
        await graded({"kind": "tools_called"}, "find")
