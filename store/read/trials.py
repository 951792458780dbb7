"""Trials as clients read them: with their configuration, and their answers a page at a time."""

# ruff: noqa: S608 (only constants of this module are put into statements; every value is a parameter)

from __future__ import annotations

import asyncio
from typing import Any, Final

from store.connection import Connection, Database
from store.encoding import decoded, from_json
from store.read.rows import item_rows, trial_rows

TRIAL = """
    t.run_id, t.trial_id, t.candidate_id, t.purpose, t.config_hash, t.round, t.index, c.parent_candidate_ids, c.rationale,
    c.extra, t.split, t.samples, t.replicates, t.first_replicate, t.status, t.score, t.coverage, t.total, t.passed, t.failed,
    t.pass_rate, t.total_cost, t.total_tokens, t.avg_latency_ms, t.avg_ttft_ms, t.stopped_early, t.error, t.failure,
    t.paid_samples, t.paid_tokens, t.paid_cost, t.cached_tokens, t.duration_ms, t.started_at, t.finished_at, t.errors,
    t.part, t.first_sample, (SELECT s.samples FROM suites s WHERE s.run_id = t.run_id AND s.split = t.split) AS split_samples,
    t.reused_samples, t.lost_samples, t.lost_tokens, t.lost_cost, t.exhausted, t.team_rest, t.score_low, t.score_high,
    coalesce(t.experiment_id, t.trial_id) AS experiment_id,
    coalesce(t.evidence, '[]') AS evidence, coalesce(t.looks, '[]') AS looks, t.judged
"""
IN_ORDER = "ORDER BY t.purpose NOT IN ('baseline', 'candidate'), t.purpose = 'confirmation', t.round, t.index, t.candidate_id"
_SUMMARY = ("total", "passed", "failed", "pass_rate", "total_cost", "total_tokens", "avg_latency_ms", "avg_ttft_ms", "errors")
_ANSWERS: Final = """
    FROM suites suite
    JOIN suite_samples drawn ON drawn.run_id = suite.run_id AND drawn.split = suite.split
    JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
    CROSS JOIN LATERAL (
        SELECT * FROM outcomes
        WHERE config_hash = $3 AND target = suite.target AND scorer = suite.scorer AND run_id = $1
          AND item_hash = drawn.item_hash AND replicate >= $4 AND replicate < $5
        OFFSET 0
    ) o
    WHERE suite.run_id = $1 AND suite.split = $2 AND ($6::bool IS NULL OR o.passed = $6)
      AND drawn.position >= $7 AND drawn.position < $8
"""
_PAGE: Final = f"""
    SELECT drawn.position, o.replicate, s.item_id, s.item_hash, s.input, s.expected, s.weight, s.tags, o.status,
           o.passed, o.scores, coalesce(o.score_details, '{{}}') AS score_details, o.output, o.error, o.feedback,
           o.tokens, o.cached_tokens, o.cost, o.latency_ms, o.ttft_ms, o.trace, o.reused_from, o.created_at,
           o.printed, o.echoed, o.texts_removed
    {_ANSWERS} ORDER BY drawn.position, o.replicate OFFSET $9 LIMIT $10
"""
_JSON: Final = ("input", "expected", "scores", "score_details", "output", "trace")


class TrialReader:
    """The trials of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, run_id: str, *, offset: int = 0, limit: int = 100, newest_first: bool = False
    ) -> trial_rows.TrialPage | None:
        """Trials in the order of their proposals, confirmations last; None when there is no such run."""
        order = "ORDER BY t.started_at DESC, t.round DESC, t.index DESC" if newest_first else IN_ORDER
        async with self._database.snapshot() as connection:
            total = await count_rows(connection, "trials", run_id)
            found = await connection.fetch(
                f"SELECT {TRIAL} FROM trials t JOIN candidates c USING (run_id, candidate_id) WHERE t.run_id = $1"
                f" {order} OFFSET $2 LIMIT $3",
                run_id,
                offset,
                limit,
            )
        if total is None:
            return None
        items = await asyncio.to_thread(lambda: tuple(trial_rows.Trial(**trial_columns(row)) for row in found))
        return trial_rows.TrialPage(total=total, items=items)

    async def load(
        self, run_id: str, candidate_id: str, purpose: str | None = None, part: str | None = None
    ) -> trial_rows.TrialDetail | None:
        """One trial with its configuration; without a purpose the one that searched."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                f"SELECT {TRIAL}, o.configuration, t.sample_means FROM trials t JOIN candidates c USING (run_id, candidate_id)"
                " JOIN overlays o ON o.config_hash = t.config_hash"
                f" WHERE t.run_id = $1 AND t.candidate_id = $2 AND ($3::text IS NULL OR t.purpose = $3)"
                f" AND ($4::text IS NULL OR t.part = $4) {IN_ORDER} LIMIT 1",
                run_id,
                candidate_id,
                purpose,
                part,
            )
        return None if row is None else trial_rows.TrialDetail(**trial_columns(row, "configuration"))

    async def items(
        self,
        run_id: str,
        candidate_id: str,
        *,
        purpose: str | None = None,
        part: str | None = None,
        passed: bool | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> item_rows.ItemPage | None:
        """The outcomes in the suite's order; without a purpose those of the trial that searched, of several parts those of the
        newest unless one is named; `passed` leaves only those that did, or did not. None without such a trial."""
        async with self._database.snapshot() as connection:
            trial = await connection.fetchrow(
                "SELECT t.split, t.config_hash, t.first_replicate, t.replicates, t.first_sample, t.samples, t.coverage,"
                " t.stopped_early"
                " FROM trials t WHERE t.run_id = $1 AND t.candidate_id = $2 AND ($3::text IS NULL OR t.purpose = $3)"
                " AND ($4::text IS NULL OR t.part = $4)"
                " ORDER BY t.purpose NOT IN ('baseline', 'candidate'), t.purpose, t.round DESC, t.index DESC LIMIT 1",
                run_id,
                candidate_id,
                purpose,
                part,
            )
            if trial is None:
                return None
            first_sample, first_replicate, each = trial["first_sample"], trial["first_replicate"], trial["replicates"]
            of = (run_id, trial["split"], trial["config_hash"], first_replicate, first_replicate + each, passed)
            page = await _page_of_complete(connection, of, trial, offset, limit)
            if page is None:
                places = (first_sample, first_sample + trial["samples"])
                total = await connection.fetchval(f"SELECT count(*) {_ANSWERS}", *of, *places)
                page = total, await connection.fetch(_PAGE, *of, *places, offset, limit)
            total, found = page
            items = (item_rows.ItemRow(**{**dict(row), **{name: from_json(row[name]) for name in _JSON}}) for row in found)
            return item_rows.ItemPage(total=total, items=tuple(items))


async def _page_of_complete(
    connection: Connection, of: tuple[Any, ...], trial: Any, offset: int, limit: int
) -> tuple[int, list[Any]] | None:
    """A page of a trial that has every answer: which samples it shows follows from its place, without counting the others.
    None where that is not so after all, or only some of the answers are asked for."""
    *_, passed = of
    each, total = trial["replicates"], trial["samples"] * trial["replicates"]
    if passed is not None or trial["coverage"] != 1.0 or trial["stopped_early"] is not None:
        return None
    end = min(offset + limit, total)
    first = trial["first_sample"]
    places = (first + offset // each, first + -(-end // each))
    found = await connection.fetch(_PAGE, *of, *places, offset % each, limit)
    return (total, found) if len(found) == max(0, end - offset) else None


def trial_columns(row: Any, *json_columns: str) -> dict[str, Any]:
    """The flat columns of a trial's row with its summary as an object."""
    values = decoded(row, "extra", "errors", "evidence", "looks", "judged", "team_rest", *json_columns)
    summary = {name: values.pop(name) for name in _SUMMARY}
    return {**values, "summary": {name: value for name, value in summary.items() if value is not None}}


async def count_rows(connection: Connection, table: str, run_id: str) -> int | None:
    """How many rows of a run a table has; None when there is no such run."""
    counted: int | None = await connection.fetchval(
        f"SELECT (SELECT count(*) FROM {table} WHERE run_id = $1) FROM runs WHERE run_id = $1", run_id
    )
    return counted
