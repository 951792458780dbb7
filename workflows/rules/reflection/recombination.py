"""New texts out of old ones: without the lines that are worth nothing, with those of others that are worth something."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workflows.rules.reflection.line_effects import Array, Model
from workflows.rules.reflection.lines import Addition, additions_of, carrying_placeholders, lines_of, recombined, text_of
from workflows.rules.reflection.measured_answers import MeasuredCandidate


@dataclass(frozen=True, slots=True)
class Composed:
    """A candidate, and what is changed in it."""

    base: MeasuredCandidate
    values: Mapping[str, str]
    donors: Sequence[str]
    """Whose lines were carried over."""


def composed(model: Model, at: int, effects: Array, factors: Sequence[str], least: float = 0.0) -> Composed:
    """A candidate's texts as they should be, if these were the effects; a line must be worth more than `least` to be there."""
    base = model.candidates[at]
    values: dict[str, str] = {}
    donors: dict[str, None] = {}
    for factor in factors:
        text = base.configuration[factor]
        if isinstance(text, str) and (made := _recomposed(model, at, effects, factor, text, least, donors)):
            values[factor] = made
    return Composed(base, values, list(donors))


def _recomposed(
    model: Model, at: int, effects: Array, factor: str, text: str, least: float, donors: dict[str, None]
) -> str | None:
    reading, lines = model.readings[at][factor], lines_of(text)
    worth = model.worth(effects, factor, reading.native)
    needed = carrying_placeholders(lines)
    dropped = {line for line in reading.lines if worth.get(line, math.inf) <= least and line not in needed}
    wanted = {line for line, effect in worth.items() if effect > least} - reading.lines
    additions: list[Addition] = []
    for other in reversed(range(len(model.candidates))):
        theirs = model.readings[other][factor]
        # A line has its meaning from the text around it, so it is carried over between versions of one text only.
        if theirs.root == reading.root and not wanted.isdisjoint(theirs.lines):
            known = model.candidates[other]
            additions += additions_of(lines_of(str(known.configuration[factor])), wanted & theirs.lines)
            wanted -= theirs.lines
            donors[known.candidate_id] = None
    made = recombined(lines, dropped, additions)
    return text_of(made) if made and (dropped or additions) else None
