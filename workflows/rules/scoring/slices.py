"""Slices: parts of a dataset, by the values of a field or by tag, and what each scored in two trials."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import Field, JsonValue

from ratchet._formats.canonical import canonical_json
from ratchet._frozen import Payload
from workflows.model.spec.dataset import Item
from workflows.model.spec.objective import Objective
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Split
from workflows.rules.scoring.objective_score import ScoringFailed, objective_score
from workflows.rules.scoring.tally import statistics

TAGS: Final = "tags"
DEFAULT_FIELDS: Final = (TAGS,)
MOST_SLICES_OF_A_FIELD: Final = 50
LONGEST_VALUE: Final = 60


class Slice(Payload):
    """One part of the dataset and what it scored."""

    name: str
    """A tag, or `input.language=de`."""
    samples: int
    baseline: float | None = None
    best: float | None = None


class Slices(Payload):
    """The parts of a dataset, measured on one split."""

    split: Split
    slices: tuple[Slice, ...] = ()
    left_out: dict[str, int] = Field(default_factory=dict)
    """By field, how many more values it has than are shown."""


def stratum(item: Item, field: str) -> str | None:
    """The value of a field as JSON text, None where the item has none. Of `tags`, all of them."""
    if field == TAGS:
        return canonical_json(sorted(set(item.tags)))
    part, *path = field.split(".")
    value: JsonValue = item.input if part == "input" else item.expected
    for step in path:
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            return None
    return canonical_json(value)


def label(field: str, value: JsonValue) -> str:
    """What a slice is called: a tag by itself, any other value behind its field."""
    text = value if isinstance(value, str) else canonical_json(value)
    short = text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
    return short if field == TAGS else f"{field}={short}"


@dataclass(frozen=True, slots=True)
class _Part:
    """The samples that have one value of a field."""

    name: str
    positions: frozenset[int]


def slices_of(
    suite: EvaluationSuite,
    values: Mapping[str, Sequence[Sequence[JsonValue]]],
    baseline: Sequence[MeasuredSample],
    best: Sequence[MeasuredSample],
) -> Slices:
    """The score of every slice in both trials, the largest first within its field.

    `values` has for each field the values of every sample, in the order of the suite: any number of tags, one value or none.
    """
    parts: list[_Part] = []
    left_out: dict[str, int] = {}
    for field, of_samples in values.items():
        found = _parts(field, of_samples)
        parts += found[:MOST_SLICES_OF_A_FIELD]
        if len(found) > MOST_SLICES_OF_A_FIELD:
            left_out[field] = len(found) - MOST_SLICES_OF_A_FIELD
    before, after = _scores(suite, parts, baseline), _scores(suite, parts, best)
    return Slices(
        split=suite.split,
        slices=tuple(
            Slice(name=part.name, samples=len(part.positions), baseline=one, best=other)
            for part, one, other in zip(parts, before, after, strict=True)
        ),
        left_out=left_out,
    )


def _parts(field: str, of_samples: Sequence[Sequence[JsonValue]]) -> list[_Part]:
    found = positions_by_value(of_samples)
    return [_Part(label(field, json.loads(value)), frozenset(positions)) for value, positions in found.items()]


def positions_by_value(of_samples: Sequence[Sequence[JsonValue]]) -> dict[str, set[int]]:
    """The places of the samples that have a value, by its JSON text; the value that most have first."""
    positions: dict[str, set[int]] = {}
    for position, given in enumerate(of_samples):
        for value in given:
            positions.setdefault(canonical_json(value), set()).add(position)
    return {value: positions[value] for value in sorted(positions, key=lambda value: (-len(positions[value]), value))}


def _scores(suite: EvaluationSuite, parts: Sequence[_Part], measured: Sequence[MeasuredSample]) -> list[float | None]:
    by_position: dict[int, list[MeasuredSample]] = {}
    for outcome in measured:
        by_position.setdefault(outcome.position, []).append(outcome)
    return [_score(suite, [o for position in part.positions for o in by_position.get(position, ())]) for part in parts]


def _score(suite: EvaluationSuite, measured: Sequence[MeasuredSample]) -> float | None:
    """The objective over these samples alone; where it is a user's own function, the mean of its metric."""
    facts = statistics(measured, suite, len(measured))
    objective = suite.objective
    if objective.kind == "python":
        objective = Objective(metric=suite.metric, direction=objective.direction, worst=objective.worst)
    try:
        return objective_score(objective, suite.metric, facts)
    except ScoringFailed:
        return None
