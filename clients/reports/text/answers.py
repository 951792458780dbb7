"""Answers as people read them on a terminal: what was asked, what was expected, what came, and why it scored as it did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from clients.reports.formatting import score_text
from clients.reports.text.terminal_text import one_line, visible, wrapped
from clients.reports.text.turn_trees import turn_texts
from store.read.rows.item_rows import ItemRow
from store.read.samples.comparisons import ComparedAnswer, ComparedSample
from workflows.rules.scoring.first_look import readable

LONGEST_TEXT: Final = 600
"""Characters of an input, an expected value, an answer or a reason that are shown."""

MOST_ROWS: Final = 8
"""Rows that each of them takes at most."""

LABEL: Final = 12
"""Columns of what stands before each text."""

NARROWEST: Final = 40


def answer_text(item: ItemRow, *, several: bool, width: int) -> str:
    """One answer with its sample; `several` says that samples have more than one."""
    head = first_row(item.item_id, item.status, item.passed) + (f", replicate {item.replicate + 1}" if several else "")
    return "\n".join([head, *_asked(item.input, item.expected, width), *_answered("Answer", item, width)])


def changed_text(sample: ComparedSample, width: int) -> str:
    """One sample whose answers pass in one trial and not in the other, with both."""
    rows = [f"{'✓' if sample.turn == 'fixed' else '✗'} {one_line(sample.item_id)}: {sample.turn}"]
    rows += _asked(sample.input, sample.expected, width)
    for label, answers in (("Before", sample.baseline_answers), ("Now", sample.candidate_answers)):
        for answer in answers:
            rows += _answered(label, answer, width)
    return "\n".join(rows)


def first_row(item_id: str, status: str, passed: bool) -> str:
    """The first line of an answer: whose it is, and whether it passed."""
    word = status if status != "answered" else "passed" if passed else "did not pass"
    return f"{'✓' if passed else '✗'} {one_line(item_id)}: {word}"


def _asked(given: Any, expected: Any, width: int) -> Iterable[str]:
    yield from labelled("Input", readable(given), width)
    if expected is not None:
        yield from labelled("Expected", readable(expected), width)


def _answered(label: str, answer: ItemRow | ComparedAnswer, width: int) -> Iterable[str]:
    yield from labelled(label, _output(answer), width)
    for turn, text in turn_texts(answer.trace):
        yield from labelled(turn, text, width)
    for name, score in answer.scores.items():
        reason = (answer.score_details.get(name) or {}).get("reason")
        yield from labelled(name, f"{score_text(score)}  {reason}" if reason else score_text(score), width)
    if answer.printed is not None:
        yield from labelled("Printed", answer.printed, width)
    if answer.error is not None:
        yield from labelled("Error", answer.error, width, longest=len(answer.error))


def _output(answer: ItemRow | ComparedAnswer) -> str:
    if answer.texts_removed:
        return "its text was removed by a policy"
    return "none" if answer.output is None else readable(answer.output)


def labelled(label: str, text: str, width: int, longest: int = LONGEST_TEXT, most_rows: int = MOST_ROWS) -> Iterable[str]:
    """The text beside its label; the lines of a longer one keep their indentation."""
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    room = max(width, NARROWEST) - LABEL - 2
    rows = [row for line in visible(short).split("\n") for row in (wrapped(line, room) or [""])]
    if (longest == LONGEST_TEXT or most_rows != MOST_ROWS) and len(rows) > most_rows:
        rows = [*rows[: most_rows - 1], "…"]
    name = one_line(label)
    first = f"  {name:<{LABEL}}" if len(name) < LABEL else f"  {name} "
    for number, row in enumerate(rows):
        yield f"{first if number == 0 else ' ' * (LABEL + 2)}{row}".rstrip()
