"""Samples by candidates: what each candidate made of each sample, a page at a time, of those that a filter lets through.

Filters read the arrays that every trial keeps (`sample_states`, `sample_means`), all of them in one pass beside each other, and
no answer; a search alone looks into answers, column by column, of as many columns as it can in a tenth of a second. Contents
are looked up for the samples of the page alone, by their keys. Nothing is joined that PostgreSQL could join badly: it has no
statistics of a young run.
"""

# ruff: noqa: S608 (only numbers and constants are put into statements; every value is a parameter)

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from store.connection import Connection, Database
from store.encrypted_contents import contents_of, shortened
from store.read.samples.excerpts import LONGEST_EXCERPT, MOST_STORED_BYTES, excerpt_column, excerpt_of
from store.read.samples.matrix_columns import Columns, DrawnSuite, UnknownColumn, read_columns
from store.read.samples.matrix_rows import (
    CandidateAnswers,
    Matrix,
    MatrixAnswers,
    MatrixCell,
    MatrixColumn,
    MatrixRow,
    Searched,
    TracedAnswer,
)
from store.read.samples.sample_pairs import answers_of, inputs_of, measured_trial
from store.read.samples.search_patterns import patterns_of
from store.read.samples.slices import values_of
from workflows.model.trial import Split
from workflows.rules.scoring.slices import LONGEST_VALUE, TAGS, label, positions_by_value
from workflows.rules.scoring.tally import HAS_FAILED, PASSES

Kept = Literal["fixed", "broken", "failed", "disagree"]
"""Samples that the first candidate failed and another passes; the other way round; where an answer failed; that some
candidates pass and others do not."""

_IS_FOUND: Final = """($8::text IS NULL OR EXISTS (
    SELECT FROM (SELECT item_id, input, expected FROM samples WHERE dataset_id = $7 AND item_hash = given.item_hash OFFSET 0) s
    WHERE s.item_id ILIKE $8 OR $9::text IS NOT NULL AND (s.input::text ILIKE $9 OR s.expected::text ILIKE $9)
) OR $9::text IS NOT NULL AND item_hash IN (SELECT item_hash FROM told))"""
_TOLD: Final = f"""
    SELECT a.item_hash
    FROM unnest($14::text[], $15::int[], $16::text[], $17::text[]) AS col (config_hash, replicate, target, run_id)
    CROSS JOIN LATERAL (
        SELECT item_hash FROM answers
        WHERE config_hash = col.config_hash AND target = col.target AND run_id = col.run_id AND replicate = col.replicate
          AND (error ILIKE $8 OR pg_column_size(output) <= {MOST_STORED_BYTES} AND output::text ILIKE $9)
        OFFSET 0
    ) a
"""
"""Samples of which a cell shows an answer, or what went wrong, with the text in it."""
_HAS_TAG: Final = f"""($13::text IS NULL OR EXISTS (
    SELECT FROM (SELECT tags FROM samples WHERE dataset_id = $7 AND item_hash = given.item_hash OFFSET 0) s,
        unnest(s.tags) AS one (tag)
    WHERE CASE WHEN length(tag) <= {LONGEST_VALUE} THEN tag ELSE left(tag, {LONGEST_VALUE - 1}) || '…' END = $13
))"""
"""By its label, as slices are named."""
_OLD_STATES: Final = f"""
    SELECT array_agg(state ORDER BY position) FROM (
        SELECT drawn.position,
               CASE WHEN count(o.passed) > 0 THEN
                   CASE WHEN 2 * count(*) FILTER (WHERE o.passed AND o.status = 'answered') >= count(o.passed)
                        THEN {PASSES} ELSE 0 END
                   + CASE WHEN bool_or(o.status = 'failed') THEN {HAS_FAILED} ELSE 0 END
               END::smallint AS state
        FROM suite_samples drawn
        LEFT JOIN LATERAL (
            SELECT passed, status FROM outcomes
            WHERE config_hash = t.config_hash AND target = suite.target AND scorer = suite.scorer AND run_id = t.run_id
              AND item_hash = drawn.item_hash AND replicate >= t.first_replicate
              AND replicate < t.first_replicate + t.replicates AND status <> 'unscored'
            OFFSET 0
        ) o ON true
        WHERE drawn.run_id = t.run_id AND drawn.split = t.split
        GROUP BY drawn.position
    ) AS of_samples
"""
"""Trials that ended before their states were kept, or have not ended, are looked up answer by answer."""


_KEPT: Final = f"""
    SELECT t.sample_means AS means, coalesce(t.sample_states, ({_OLD_STATES})) AS states,
           ARRAY(SELECT item_hash FROM suite_samples WHERE run_id = t.run_id AND split = t.split ORDER BY position) AS hashes
    FROM trials t JOIN suites suite USING (run_id, split)
    WHERE t.run_id = $1 AND t.candidate_id = $2 AND t.purpose = ANY($3) AND t.part = ''
"""
"""What a trial keeps of its samples."""
MOST_SEARCHED_ANSWERS: Final = 80_000
"""That one search looks into; of the columns behind them it looks into none."""
_PARAMETERS: Final = 17
"""Of the page's statement; behind them come states and means of columns of other runs."""


class NoSample(ValueError):
    """The split has no such sample."""


@dataclass(frozen=True, slots=True)
class MatrixFilter:
    """Which samples are wanted."""

    kept: Kept | None = None
    of: str | None = None
    """The candidate that fixed, broke or failed it; None for any of the columns."""
    field: str = TAGS
    slice: str | None = None
    """A tag, or `input.language=de`, of the field."""
    search: str | None = None


class MatrixReader:
    """Samples by candidates."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        run_id: str,
        candidates: Sequence[str] | None = None,
        *,
        others: Sequence[tuple[str, str]] = (),
        confirmation: bool = False,
        wanted: MatrixFilter = MatrixFilter(),
        after: int = -1,
        skip: int = 0,
        limit: int = 50,
    ) -> Matrix | None:
        """A page of samples behind a position, of these candidates: else the baseline, the best and those with the best scores.

        `others` are candidates of other runs, by run and id, which come last; samples that those did not draw are empty.
        None when there is no such run. Raises UnknownColumn.
        """
        async with self._database.snapshot() as connection:
            columns = await read_columns(connection, run_id, candidates, others, confirmation=confirmation)
            if columns is None:
                return None
            searched: Searched = "ids" if contents_of(connection).encrypts else "contents"
            searches = searched == "contents" and wanted.search is not None
            columns_searched = _columns_searched(columns) if searches else 0
            total, found = await _filtered(connection, run_id, columns, wanted, columns_searched, searched, after, skip, limit)
            rows = await _rows(connection, run_id, columns, found)
        return Matrix(
            optimization_id=run_id,
            split=columns.suite.split,
            samples=columns.suite.samples,
            total=total,
            columns=tuple(columns.shown),
            searched=searched,
            columns_searched=columns_searched,
            items=rows,
            next_after=rows[-1].position if len(rows) == limit else None,
        )

    async def answers(
        self,
        run_id: str,
        sample: int | str,
        candidates: Sequence[str],
        *,
        others: Sequence[tuple[str, str]] = (),
        confirmation: bool = False,
    ) -> MatrixAnswers | None:
        """One sample in full, by position or id, with all answers of some candidates; None when there is no such run.

        Raises UnknownColumn and NoSample.
        """
        async with self._database.snapshot() as connection:
            columns = await read_columns(connection, run_id, candidates, others, confirmation=confirmation)
            if columns is None:
                return None
            drawn = await connection.fetchrow(
                "SELECT drawn.position, drawn.item_hash, s.weight FROM suite_samples drawn JOIN samples s ON s.dataset_id = $5"
                " AND s.item_hash = drawn.item_hash WHERE drawn.run_id = $1 AND drawn.split = $2"
                " AND ($3::int IS NULL OR drawn.position = $3) AND ($4::text IS NULL OR s.item_id = $4)"
                " ORDER BY drawn.position LIMIT 1",
                *(run_id, columns.suite.split),
                *((sample, None) if isinstance(sample, int) else (None, sample)),
                columns.suite.dataset_id,
            )
            if drawn is None:
                raise NoSample(sample)
            item_hash = drawn["item_hash"]
            asked = (await inputs_of(connection, run_id, columns.suite.split, [item_hash]))[item_hash]
            given = []
            for column in columns.shown:
                trial = await measured_trial(connection, column.optimization_id, column.candidate_id, column.purpose)
                assert trial is not None
                found = (await answers_of(connection, trial, [item_hash], traces=True)).get(item_hash, [])
                score = await connection.fetchval(
                    "SELECT t.sample_means[drawn.position + 1] FROM trials t JOIN suite_samples drawn USING (run_id, split)"
                    " WHERE t.run_id = $1 AND t.candidate_id = $2 AND t.purpose = $3 AND t.part = '' AND drawn.item_hash = $4",
                    *(column.optimization_id, column.candidate_id, column.purpose.value, item_hash),
                )
                answers = tuple(TracedAnswer(**answer) for answer in found)
                whose = {"optimization_id": column.optimization_id, "candidate_id": column.candidate_id}
                given.append(CandidateAnswers(**whose, score=score, answers=answers))
            return MatrixAnswers(position=drawn["position"], weight=drawn["weight"], candidates=tuple(given), **asked)


async def _filtered(
    connection: Connection,
    run_id: str,
    columns: Columns,
    wanted: MatrixFilter,
    columns_searched: int,
    searched: Searched,
    after: int,
    skip: int,
    limit: int,
) -> tuple[int, list[Any]]:
    """How many samples pass the filters, and those of one page with states and means, column by column."""
    names = [_name_of(one, run_id) for one in columns.shown]
    if wanted.of is not None and wanted.of not in names:
        raise UnknownColumn(wanted.of)
    flags = await _in_slice(connection, run_id, columns.suite, wanted)
    in_text, in_json = (None, None) if wanted.search is None else patterns_of(wanted.search)
    others = await _kept_of_others(connection, run_id, columns)
    rows = await connection.fetch(
        _page_statement(names, wanted, others),
        *(run_id, columns.purposes, columns.candidate_ids, columns.run_ids, columns.suite.split),
        *(flags, columns.suite.dataset_id, in_text, in_json if searched == "contents" else None),
        *(after, skip, limit, wanted.slice if wanted.field == TAGS else None),
        *(part[:columns_searched] for part in (columns.config_hashes, columns.first_replicates, columns.targets)),
        columns.run_ids[:columns_searched],
        *(array for pair in others.values() for array in pair),
    )
    return rows[0]["total"], [row for row in rows if row["position"] is not None]


def _columns_searched(columns: Columns) -> int:
    """Into the answers of how many columns a search looks: the first ones, and always one."""
    return min(len(columns.shown), max(1, MOST_SEARCHED_ANSWERS // max(1, columns.suite.samples)))


def _name_of(column: MatrixColumn, run_id: str) -> str:
    """By which a filter asks after a column."""
    return column.candidate_id if column.optimization_id == run_id else f"{column.optimization_id}/{column.candidate_id}"


async def _kept_of_others(connection: Connection, run_id: str, columns: Columns) -> dict[int, tuple[list[Any], list[Any]]]:
    """By place, states and means of columns of other runs, in the order of these samples; where the contents of a sample are
    the same, it is the same. Nothing is joined, which takes time that nobody can foresee."""
    places = [place for place, whose in enumerate(columns.run_ids) if whose != run_id]
    if not places:
        return {}
    drawn = await connection.fetchval(
        "SELECT array_agg(item_hash ORDER BY position) FROM suite_samples WHERE run_id = $1 AND split = $2",
        run_id,
        columns.suite.split,
    )
    found: dict[int, tuple[list[Any], list[Any]]] = {}
    for place in places:
        row = await connection.fetchrow(_KEPT, columns.run_ids[place], columns.candidate_ids[place], columns.purposes)
        if row is None:  # deleted a moment ago
            continue
        means, states = row["means"] or [], row["states"] or []
        at = {item_hash: position for position, item_hash in enumerate(row["hashes"])}
        theirs = [at.get(item_hash, -1) for item_hash in drawn or ()]
        found[place] = _taken(states, theirs), _taken(means, theirs)
    return found


def _taken(values: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    return [values[position] if 0 <= position < len(values) else None for position in positions]


def _page_statement(names: list[str], wanted: MatrixFilter, given: Collection[int]) -> str:
    """All arrays beside each other, in one pass; the page behind a position, and how many there are in all."""
    places = range(len(names))
    numbers = {place: _PARAMETERS + 1 + 2 * number for number, place in enumerate(given)}

    def kept(what: str, place: int) -> str:
        if place not in numbers:
            return f"(SELECT {what} FROM shown WHERE place = {place + 1})"
        return f"${numbers[place]}::smallint[]" if what == "states" else f"${numbers[place] + 1}::float8[]"

    states = [kept("states", place) for place in places]
    means = [kept("means", place) for place in places]
    cells = [*(f"state_{place}" for place in places), *(f"mean_{place}" for place in places)]
    conditions = ["item_hash IS NOT NULL", "($6::boolean[] IS NULL OR in_slice)", _HAS_TAG, _IS_FOUND]
    if wanted.kept is not None:
        conditions.append(_condition(wanted.kept, len(names), None if wanted.of is None else names.index(wanted.of)))
    return f"""
        WITH shown AS MATERIALIZED (
            SELECT wanted.place, t.sample_means AS means, coalesce(t.sample_states, ({_OLD_STATES})) AS states
            FROM unnest($4::text[], $3::text[]) WITH ORDINALITY AS wanted (run_id, candidate_id, place)
            JOIN trials t ON t.run_id = wanted.run_id AND t.candidate_id = wanted.candidate_id AND t.purpose = ANY($2)
                AND t.part = ''
            JOIN suites suite ON suite.run_id = t.run_id AND suite.split = t.split
            WHERE t.run_id = $1
        ), told AS ({_TOLD}), matching AS MATERIALIZED (
            SELECT * FROM unnest(
                ARRAY(SELECT item_hash FROM suite_samples WHERE run_id = $1 AND split = $5 ORDER BY position),
                {", ".join(["$6::boolean[]", *states, *means])}
            ) WITH ORDINALITY AS given ({", ".join(["item_hash", "in_slice", *cells, "number"])})
            WHERE {" AND ".join(conditions)}
        )
        SELECT counted.total, page.*
        FROM (SELECT count(*) AS total FROM matching) counted
        LEFT JOIN (
            SELECT number::int - 1 AS position, * FROM matching WHERE number - 1 > $10 ORDER BY number OFFSET $11 LIMIT $12
        ) page ON true
        ORDER BY page.number
    """


def _condition(kept: Kept, count: int, of: int | None) -> str:
    """What a sample must be, in terms of the states of its cells; the first one is what others are compared with."""
    if count == 0:
        return "false"
    passes = [f"state_{place} & {PASSES} <> 0" for place in range(count)]
    lacks = [f"state_{place} & {PASSES} = 0" for place in range(count)]
    compared = [of] if of is not None else list(range(1, count))
    asked = [of] if of is not None else list(range(count))
    match kept:
        case "fixed":
            return f"{lacks[0]} AND {_any(passes[place] for place in compared)}"
        case "broken":
            return f"{passes[0]} AND {_any(lacks[place] for place in compared)}"
        case "failed":
            return _any(f"state_{place} & {HAS_FAILED} <> 0" for place in asked)
        case "disagree":
            return f"{_any(passes)} AND {_any(lacks)}"


def _any(conditions: Any) -> str:
    return f"({' OR '.join(conditions) or 'false'})"


async def _in_slice(connection: Connection, run_id: str, suite: DrawnSuite, wanted: MatrixFilter) -> list[bool] | None:
    """For every sample of the split, whether it is in the slice; None where none is asked for, or a tag, which SQL looks up."""
    if wanted.slice is None or wanted.field == TAGS:
        return None
    found = positions_by_value(await values_of(connection, run_id, Split(suite.split), wanted.field))
    flags = [False] * suite.samples
    for value, positions in found.items():
        if label(wanted.field, json.loads(value)) == wanted.slice:
            for position in positions:
                flags[position] = True
    return flags


async def _rows(connection: Connection, run_id: str, columns: Columns, found: list[Any]) -> tuple[MatrixRow, ...]:
    """The samples of a page with the beginnings of their contents and answers."""
    hashes = [row["item_hash"] for row in found]
    samples = {
        row["item_hash"]: row
        for row in await connection.fetch(
            f"""
            SELECT s.item_hash, s.item_id, s.tags, s.weight, {excerpt_column(connection, "s.input")} AS input,
                   {excerpt_column(connection, "s.expected")} AS expected
            FROM unnest($2::text[]) AS given (item_hash)
            CROSS JOIN LATERAL (SELECT * FROM samples WHERE dataset_id = $1 AND item_hash = given.item_hash OFFSET 0) s
            """,
            columns.suite.dataset_id,
            hashes,
        )
    }
    answers = {
        (row["place"], row["item_hash"]): row
        for row in await connection.fetch(
            f"""
            SELECT col.place, given.item_hash, {excerpt_column(connection, "a.output")} AS output,
                   {shortened("a.error", str(LONGEST_EXCERPT + 1))} AS error, coalesce(a.texts_removed, false) AS texts_removed
            FROM unnest($1::text[], $2::int[], $4::text[], $5::text[])
                WITH ORDINALITY AS col (config_hash, replicate, target, run_id, place)
            CROSS JOIN unnest($3::text[]) AS given (item_hash)
            CROSS JOIN LATERAL (
                SELECT output, error, texts_removed FROM answers
                WHERE config_hash = col.config_hash AND target = col.target AND run_id = col.run_id
                  AND item_hash = given.item_hash
                  AND replicate = col.replicate
                OFFSET 0
            ) a
            """,
            *(columns.config_hashes, columns.first_replicates, hashes, columns.targets, columns.run_ids),
        )
    }

    def cell(place: int, row: Any) -> MatrixCell:
        answer = answers.get((place + 1, row["item_hash"]))
        state = row[f"state_{place}"]
        told = None
        if answer is not None:
            told = excerpt_of(connection, answer["output"])
            told = answer["error"][:LONGEST_EXCERPT] if not told and answer["error"] else told
        return MatrixCell(
            score=row[f"mean_{place}"],
            passes=None if state is None else bool(state & PASSES),
            failed=bool((state or 0) & HAS_FAILED),
            excerpt=told,
            texts_removed=answer is not None and answer["texts_removed"],
        )

    return tuple(
        MatrixRow(
            position=row["position"],
            item_id=samples[row["item_hash"]]["item_id"],
            input=excerpt_of(connection, samples[row["item_hash"]]["input"]),
            expected=excerpt_of(connection, samples[row["item_hash"]]["expected"]) or None,
            tags=tuple(samples[row["item_hash"]]["tags"]),
            weight=samples[row["item_hash"]]["weight"],
            cells=tuple(cell(place, row) for place in range(len(columns.shown))),
        )
        for row in found
    )
