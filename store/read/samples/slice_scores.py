"""What many trials scored on each slice, in one look: what a table of trials shows beside their scores.

A slice's score is the mean of what its samples add to the objective, which every trial keeps sample by sample. That is the
objective itself where it is a mean over samples, and the mean of its metric where it is not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ratchet._frozen import Payload
from store.connection import Connection, Database
from store.read.samples.slices import stated_fields, values_of
from store.write.suites import load_suite
from workflows.model.trial import Purpose, Split
from workflows.rules.scoring.objective_score import is_mean_over_samples
from workflows.rules.scoring.slices import label, positions_by_value

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


class SliceScoreReader:
    """What the trials of runs scored on slices of their samples."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def slices(self, run_id: str) -> RunSlices | None:
        """The slices by which the run's trials can be looked at; None when there is no such run."""
        async with self._database.snapshot() as connection:
            searched = await connection.fetchval("SELECT search_split FROM runs WHERE run_id = $1", run_id)
            if searched is None:
                return None
            split = Split(searched)
            suite = await load_suite(connection, run_id, split)
            fields = []
            for field in dict.fromkeys(await stated_fields(connection, run_id)):
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

    async def scores(self, run_id: str, field: str, candidates: Sequence[str] | None) -> SliceScores | None:
        """What trials scored on the slices of a field: of some candidates, or all. None when there is no such run."""
        async with self._database.snapshot() as connection:
            searched = await connection.fetchval("SELECT search_split FROM runs WHERE run_id = $1", run_id)
            if searched is None:
                return None
            if candidates is None and (values := await _all_values(connection, run_id)) > MOST_VALUES:
                raise TooMuch(
                    f"all trials of this run have {values:,} scores of samples, and at most {MOST_VALUES:,} are added up"
                )
            slices = await _values_in_splits(connection, run_id, Split(searched), field)
            members = await _members(connection, run_id, slices)
            rows = await connection.fetch(_statement(len(slices)), run_id, *members, candidates, _MOST_SAMPLES)
            return SliceScores(
                optimization_id=run_id,
                field=field,
                slices=tuple(value.name for value in slices),
                trials=tuple(TrialBySlice(**row) for row in rows),
            )


def _statement(slices: int) -> str:
    """One pass over each trial's scores, without a join: PostgreSQL has no statistics of a young run, and would join slowly."""
    sums = (
        f"sum(g.weight * g.mean) FILTER (WHERE g.slices & {1 << place} <> 0)"
        f" / sum(g.weight) FILTER (WHERE g.slices & {1 << place} <> 0) * $7"
        for place in range(slices)
    )
    return f"""
        WITH member AS MATERIALIZED (
            SELECT split, array_agg(weight ORDER BY position) AS weights, array_agg(slices ORDER BY position) AS slices
            FROM unnest($2::text[], $3::int[], $4::float8[], $5::int[]) AS m (split, position, weight, slices)
            GROUP BY split
        )
        SELECT t.candidate_id, t.purpose, t.part, added.scores
        FROM trials t
        JOIN member m USING (split)
        CROSS JOIN LATERAL (
            SELECT ARRAY[{", ".join(sums)}]::float8[] AS scores, count(*) AS answered
            FROM (
                SELECT CASE WHEN abs(mean) < 1e-200 THEN 0 ELSE mean / $7 END AS mean, weight, slices
                FROM unnest(t.sample_means, m.weights, m.slices) AS given (mean, weight, slices)
                WHERE mean IS NOT NULL
            ) g
        ) added
        WHERE t.run_id = $1 AND ($6::text[] IS NULL OR t.candidate_id = ANY($6)) AND t.status <> 'running'
    """  # noqa: S608 (numbers alone)


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
    """Split, position, weight and slices (one bit for each) of every sample, column by column."""
    rows = await connection.fetch(
        """
        SELECT suite.split, drawn.position, s.weight, max(s.weight) OVER (PARTITION BY suite.split) AS heaviest
        FROM suites suite
        JOIN suite_samples drawn USING (run_id, split)
        JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
        WHERE suite.run_id = $1
        """,
        run_id,
    )
    bits: Counter[tuple[str, int]] = Counter()
    for number, value in enumerate(slices):
        for split, positions in value.positions.items():
            bits.update({(split.value, position): 1 << number for position in positions})
    return [
        [row["split"] for row in rows],
        [row["position"] for row in rows],
        [max(row["weight"] / row["heaviest"], _LEAST_WEIGHT) for row in rows],
        [bits[row["split"], row["position"]] for row in rows],
    ]
