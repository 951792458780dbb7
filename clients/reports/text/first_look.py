"""A first look at the baseline's answers as people read it on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from clients.reports.formatting import score_text
from clients.reports.text.answers import first_row, labelled
from clients.reports.text.terminal_text import one_line, wrapped
from workflows.model.run.first_look import FirstLook, ShownAnswer

ROWS = 4
"""That each text takes at most."""


def first_look_lines(look: FirstLook, width: int) -> Iterator[str]:
    """Three answers, then what is probably wrong."""
    if look.shown:
        yield "First look at the baseline's answers:"
        for one in look.shown:
            yield from _answer(one, width)
    yield from warning_lines(look, width)


def warning_lines(look: FirstLook, width: int) -> Iterator[str]:
    """What is probably wrong, one sentence after the other."""
    for warning in look.warnings:
        first, *rest = wrapped(one_line(warning), max(width, 40) - 2)
        yield f"! {first}"
        yield from (f"  {row}" for row in rest)


def _answer(one: ShownAnswer, width: int) -> Iterator[str]:
    yield first_row(one.sample, "answered" if one.scores else "failed", one.passed)
    yield from labelled("Input", one.input, width, most_rows=ROWS)
    if one.expected is not None:
        yield from labelled("Expected", one.expected, width, most_rows=ROWS)
    yield from labelled("Answer", "none" if one.answer is None else one.answer, width, most_rows=ROWS)
    for name, value in one.scores.items():
        yield from labelled(name, score_text(value), width)
    if one.why:
        yield from labelled("Why", one.why, width, most_rows=ROWS)
