"""What many trials scored on each slice, in one look: what a table of trials shows beside their scores.

A slice's score is the mean of what its samples add to the objective, which every trial keeps sample by sample. That is the
objective itself where it is a mean over samples, and the mean of its metric where it is not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from activities.store.connection import Connection
from activities.store.shards import load_suite
from activities.store.slicing import stated_fields, values_of
from workflows.model.frozen import Payload
from workflows.model.trial import Purpose, Split
from workflows.rules.scoring import is_mean_over_samples
from workflows.rules.slices import label, positions_by_value

MOST_SLICES: Final = 12
"""Of a field; more would not fit into a table."""
MOST_VALUES: Final = 2_000_000
"""Scores of single samples that are added up for one answer: about a second of PostgreSQL's time."""
_LEAST_WEIGHT: Final = 1e-100
"""Of the heaviest sample's. PostgreSQL refuses sums that overflow and products that vanish: weights from this to 1, values that
are 0 below 1e-200 and divided by the number of samples do neither."""
_MOST_SAMPLES: Final = 2.0**24


class SliceOfRun(Payload):
    """One part of the samples that score candidates."""

    name: str
    """A tag, or `input.language=de`."""
    samples: int
    """How many of the samples that score candidates have this value."""


class SlicedField(Payload):
    """A field of which there are several slices."""

    field: str
    """`tags`, `expected` or e.g. `input.language`."""
    slices: tuple[SliceOfRun, ...]
    """The largest first."""
    left_out: int
    """How many more values the field has."""


class RunSlices(Payload):
    """By which fields the trials of a run can be looked at."""

    optimization_id: str
    fields: tuple[SlicedField, ...]
    """Those that the spec names under `dataset.slices`, else `tags`, without those of which there is one slice or none."""
    measure: str
    """What a slice's score is: `objective`, or e.g. `mean of label` where the objective is no mean over samples."""
    all_at_once: bool
    """Whether the scores of all trials can be asked for at once, which sorting by a slice needs."""


class TrialBySlice(Payload):
    """What one trial scored on each slice."""

    candidate_id: str
    purpose: Purpose
    part: str
    """Tells trials of some samples only apart; empty for others."""
    scores: tuple[float | None, ...]
    """In the order of the slices; null where the trial answered no sample of one."""


class SliceScores(Payload):
    """What trials scored on each slice, on the samples of their own split."""

    optimization_id: str
    field: str
    slices: tuple[str, ...]
    """Their names, the largest first."""
    trials: tuple[TrialBySlice, ...]
    """Those that are over; in no order."""


class TooMuch(ValueError):
    """More than one answer should add up."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of a field, with its samples in every split."""

    name: str
    positions: dict[Split, set[int]]


async def slices_in_run(connection: Connection, run_id: str) -> RunSlices | None:
    """The slices by which the run's trials can be looked at; None when there is no such run."""
    searched = await connection.fetchval("SELECT search_split FROM runs WHERE run_id = $1", run_id)
    if searched is None:
        return None
    split = Split(searched)
    suite = await load_suite(connection, run_id, split)
    fields = []
    for field in await stated_fields(connection, run_id):
        found = positions_by_value(await values_of(connection, run_id, split, field))
        if len(found) > 1:
            shown = tuple(
                SliceOfRun(name=label(field, json.loads(value)), samples=len(positions))
                for value, positions in list(found.items())[:MOST_SLICES]
            )
            fields.append(SlicedField(field=field, slices=shown, left_out=len(found) - len(shown)))
    return RunSlices(
        optimization_id=run_id,
        fields=tuple(fields),
        measure="objective" if is_mean_over_samples(suite.objective) else f"mean of {suite.metric}",
        all_at_once=await _all_values(connection, run_id) <= MOST_VALUES,
    )


async def slice_scores(connection: Connection, run_id: str, field: str, candidates: Sequence[str] | None) -> SliceScores | None:
    """What the trials of some candidates, or all trials, scored on the slices of a field; None when there is no such run."""
    searched = await connection.fetchval("SELECT search_split FROM runs WHERE run_id = $1", run_id)
    if searched is None:
        return None
    if candidates is None and (values := await _all_values(connection, run_id)) > MOST_VALUES:
        raise TooMuch(f"all trials of this run have {values:,} scores of samples, and at most {MOST_VALUES:,} are added up")
    slices = await _values_in_splits(connection, run_id, Split(searched), field)
    rows = await connection.fetch(_SCORES, run_id, *await _members(connection, run_id, slices), candidates, _MOST_SAMPLES)
    return SliceScores(
        optimization_id=run_id,
        field=field,
        slices=tuple(value.name for value in slices),
        trials=tuple(_trial(row, len(slices)) for row in rows),
    )


_SCORES = """
WITH member AS (
    SELECT * FROM unnest($2::text[], $3::int[], $4::int[], $5::float8[]) AS m (split, position, slice, weight)
),
scored AS (
    SELECT t.candidate_id, t.purpose, t.part, m.slice,
           sum(m.weight * CASE WHEN abs(given.mean) < 1e-200 THEN 0 ELSE given.mean / $7 END) / sum(m.weight) * $7 AS score
    FROM trials t
    CROSS JOIN LATERAL unnest(t.sample_means) WITH ORDINALITY AS given (mean, place)
    JOIN member m ON m.split = t.split AND m.position = given.place - 1
    WHERE t.run_id = $1 AND ($6::text[] IS NULL OR t.candidate_id = ANY($6)) AND given.mean IS NOT NULL
    GROUP BY t.candidate_id, t.purpose, t.part, m.slice
)
SELECT t.candidate_id, t.purpose, t.part, array_agg(s.slice) FILTER (WHERE s.slice IS NOT NULL) AS slices,
       array_agg(s.score) FILTER (WHERE s.slice IS NOT NULL) AS scores
FROM trials t
LEFT JOIN scored s USING (candidate_id, purpose, part)
WHERE t.run_id = $1 AND ($6::text[] IS NULL OR t.candidate_id = ANY($6)) AND t.status <> 'running'
GROUP BY t.candidate_id, t.purpose, t.part
"""


def _trial(row: Any, slices: int) -> TrialBySlice:
    scores: list[float | None] = [None] * slices
    for place, score in zip(row["slices"] or (), row["scores"] or (), strict=True):
        scores[place] = score
    return TrialBySlice(candidate_id=row["candidate_id"], purpose=row["purpose"], part=row["part"], scores=tuple(scores))


async def _all_values(connection: Connection, run_id: str) -> int:
    """How many scores of single samples the run's trials have, at most."""
    count: int = await connection.fetchval("SELECT coalesce(sum(samples), 0) FROM trials WHERE run_id = $1", run_id)
    return count


async def _values_in_splits(connection: Connection, run_id: str, searched: Split, field: str) -> list[_Value]:
    """The largest slices of the split that scores candidates, and where their values are in the others."""
    splits = [Split(row["split"]) for row in await connection.fetch("SELECT split FROM suites WHERE run_id = $1", run_id)]
    found = {split: positions_by_value(await values_of(connection, run_id, split, field)) for split in splits}
    return [
        _Value(label(field, json.loads(value)), {split: found[split].get(value, set()) for split in splits})
        for value in list(found[searched])[:MOST_SLICES]
    ]


async def _members(connection: Connection, run_id: str, slices: Sequence[_Value]) -> list[list[Any]]:
    """Split, position, slice and weight of every sample in every slice it is in, column by column."""
    rows = await connection.fetch(
        """
        SELECT suite.split, array_agg(s.weight ORDER BY drawn.position) AS weights
        FROM suites suite
        JOIN suite_samples drawn USING (run_id, split)
        JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
        WHERE suite.run_id = $1
        GROUP BY suite.split
        """,
        run_id,
    )
    weights = {Split(row["split"]): row["weights"] for row in rows}
    heaviest = {split: max(of_samples) for split, of_samples in weights.items() if of_samples}
    found = [
        (split.value, position, number, max(weights[split][position] / heaviest[split], _LEAST_WEIGHT))
        for number, value in enumerate(slices)
        for split, positions in value.positions.items()
        for position in positions
    ]
    return [[one[column] for one in found] for column in range(4)]
