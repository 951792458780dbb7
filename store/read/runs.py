"""Runs as clients read them: in a list, live, and as a report of everything that was decided."""

# ruff: noqa: S608 (only constants of this module are put into statements; every value is a parameter)

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from store.connection import Connection, Database
from store.encoding import decoded
from store.read import replay_records
from store.read.marks import marks_of_run, marks_of_runs
from store.read.releases import listed_releases
from store.read.rows import report_rows, round_rows, run_rows, trial_rows
from store.read.trials import IN_ORDER, TRIAL, count_rows, trial_columns
from store.write.served_times import STOOD_STILL

_RUN = f"""
    r.run_id, r.name, r.use_case, r.experiment, r.status, r.stop_reason, r.message, r.optimizer, r.objective, r.direction,
    r.round, r.proposed, r.completed, r.failed, r.rejected, r.stopped, r.paid_trials, r.paid_samples, r.paid_tokens,
    r.paid_cost, r.cached_tokens,
    r.baseline_candidate_id, r.baseline_score, r.best_candidate_id, r.best_score, r.started_at, r.updated_at,
    r.finished_at, {STOOD_STILL} AS stood_still_seconds,
    (SELECT count(*) FROM trials t WHERE t.run_id = r.run_id AND t.status = 'running') AS running,
    r.result -> 'confirmation' AS confirmation,
    nullif(r.result -> 'unproven', 'null') - '{{configuration,changes}}'::text[] AS unproven,
    (SELECT t.judged ->> 'verdict' FROM trials t
     WHERE t.run_id = r.run_id AND t.candidate_id = r.best_candidate_id AND t.purpose = 'candidate') AS search_verdict
"""
_ROUND = "round, best_candidate_id, best_score, best_so_far_id, best_so_far, stop_reason, stopped, extra, record, decided_at"
_IN_FORCE = """
    coalesce(r.limits #>> '{stop,max_rounds}', r.spec #>> '{stop,max_rounds}')::int AS max_rounds,
    coalesce(r.spec -> 'budget', '{}') || coalesce(r.limits -> 'budget', '{}') AS budget
"""
_REMOVALS = """
    SELECT coalesce(jsonb_agg(jsonb_build_object('kind', m.kind, 'policy', m.policy, 'at', m.began_at, 'complete',
                    m.ended_at IS NOT NULL, 'answers', m.answers, 'bytes', m.bytes) ORDER BY m.number), '[]')
    FROM removals m WHERE m.run_id = r.run_id AND m.began_at >= r.started_at
"""
_HOLDS = """
    SELECT coalesce(jsonb_agg(jsonb_build_object('label', h.label, 'reason', h.reason, 'set_by', h.set_by, 'through', h.through,
                    'set_at', h.set_at) ORDER BY h.number), '[]')
    FROM legal_holds h WHERE h.run_id = r.run_id AND h.lifted_at IS NULL
"""
_SOURCES_REMOVED = """
    SELECT count(DISTINCT m.run_id) FROM removals m LEFT JOIN runs o USING (run_id)
    WHERE m.run_id <> r.run_id AND m.began_at < r.started_at
      AND (m.run_id = r.spec ->> 'retry_of' OR (r.spec ->> 'reuse' = 'always' AND o.dataset_id = r.dataset_id))
"""
_JSON_OF_A_RUN = ("spec", "result", "limits", "versions", "plan", "noise", "first_look", "removals", "legal_holds")
_REJECTION = "round, proposed_index, reason_code, message, config_hash, parent_candidate_ids"


class RunReader:
    """Runs, with their rounds and rejections."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, *, status: str | None = None, offset: int = 0, limit: int = 100) -> list[run_rows.RunSummary]:
        """Runs, the newest first."""
        async with self._database.connection() as connection:
            found = await connection.fetch(
                f"SELECT {_RUN} FROM runs r WHERE $1::text IS NULL OR r.status = $1"
                " ORDER BY r.started_at DESC, r.run_id OFFSET $2 LIMIT $3",
                status,
                offset,
                limit,
            )
        return [run_rows.RunSummary(**_run(row)) for row in found]

    async def listed(
        self,
        *,
        status: str | None = None,
        search: str | None = None,
        team: str | None = None,
        pinned: bool = False,
        offset: int = 0,
        limit: int = 100,
    ) -> run_rows.RunPage:
        """Runs, the newest first, whose id, name, use case or tag contains a text; with how many there are. With a team, its
        own."""
        chosen = (
            "($1::text IS NULL OR r.status = $1) AND ($2::text IS NULL OR position(lower($2) IN lower("
            "r.run_id || ' ' || r.name || ' ' || r.use_case)) > 0 OR r.run_id IN (SELECT run_id FROM marks WHERE kind = 'tag'"
            " AND candidate_id IS NULL AND position(lower($2) IN lower(text)) > 0))"
            " AND ($3::text IS NULL OR team_of_run(r.run_id) = $3)"
        )
        if pinned:
            chosen += " AND r.run_id IN (SELECT run_id FROM marks WHERE kind = 'pin' AND candidate_id IS NULL)"
        async with self._database.snapshot() as connection:
            total = await connection.fetchval(f"SELECT count(*) FROM runs r WHERE {chosen}", status, search, team)
            # What is told of a run is looked up for those of the page alone, not for those before it.
            found = await connection.fetch(
                f"SELECT {_RUN}, {_IN_FORCE} FROM runs r WHERE r.run_id = ANY(ARRAY("
                f"SELECT r.run_id FROM runs r WHERE {chosen} ORDER BY r.started_at DESC, r.run_id OFFSET $4 LIMIT $5))"
                " ORDER BY r.started_at DESC, r.run_id",
                status,
                search,
                team,
                offset,
                limit,
            )
            marks = await marks_of_runs(connection, [row["run_id"] for row in found])
        listed = (_listed(row) for row in found)
        items = (row.model_copy(update={"marks": marks[row.run_id]}) if row.run_id in marks else row for row in listed)
        return run_rows.RunPage(total=total, items=tuple(items))

    async def progress(self, run_id: str) -> run_rows.LiveProgress | None:
        """The live counters of a run, in one query that is cheap enough to poll."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                f"""
                SELECT {_RUN}, live.in_flight
                FROM runs r
                CROSS JOIN LATERAL (
                    SELECT coalesce(jsonb_agg(jsonb_build_object(
                        'candidate_id', t.candidate_id, 'purpose', t.purpose, 'round', t.round, 'started_at', t.started_at,
                        'expected', t.samples::bigint * t.replicates, 'answered',
                        (SELECT count(*) FROM outcomes o
                         WHERE o.config_hash = t.config_hash AND o.target = s.target AND o.scorer = s.scorer
                           AND o.run_id = t.run_id AND o.trial_id = t.trial_id)
                    ) ORDER BY t.round, t.index, t.candidate_id), '[]') AS in_flight
                    FROM trials t JOIN suites s USING (run_id, split)
                    WHERE t.run_id = r.run_id AND t.status = 'running'
                ) live
                WHERE r.run_id = $1
                """,
                run_id,
            )
        return None if row is None else _live(row)

    async def is_known(self, run_id: str) -> bool:
        """Whether the store knows a run."""
        async with self._database.connection() as connection:
            return bool(await connection.fetchval("SELECT true FROM runs WHERE run_id = $1", run_id))

    async def known_among(self, run_ids: Sequence[str]) -> set[str]:
        """Those of these runs that the store knows."""
        async with self._database.connection() as connection:
            found = await connection.fetch("SELECT run_id FROM runs WHERE run_id = ANY($1::text[])", list(run_ids))
        return {row["run_id"] for row in found}

    async def load(self, run_id: str) -> run_rows.RunDetail | None:
        """A run with its spec and result."""
        async with self._database.connection() as connection:
            return await _run_in_full(connection, run_id)

    async def report(self, run_id: str) -> report_rows.RunReport | None:
        """A run with all its rounds, trials and rejections, as they were at one moment."""
        async with self._database.snapshot() as connection:
            run = await _run_in_full(connection, run_id)
            if run is None:
                return None
            rounds = await connection.fetch(
                f"SELECT {_ROUND} FROM rounds WHERE run_id = $1 ORDER BY round",
                run_id,
            )
            trials = await connection.fetch(
                f"SELECT {TRIAL}, o.configuration, t.sample_means FROM trials t JOIN candidates c USING (run_id, candidate_id)"
                f" JOIN overlays o ON o.config_hash = t.config_hash WHERE t.run_id = $1 {IN_ORDER}",
                run_id,
            )
            rejections = await connection.fetch(
                f"SELECT {_REJECTION} FROM rejections WHERE run_id = $1 ORDER BY round, proposed_index", run_id
            )
            released = await listed_releases(connection, run_id=run_id)
            splits = await replay_records.splits(connection, run_id)
            proposals = await replay_records.proposal_costs(connection, run_id)
            marks = await marks_of_run(connection, run_id)

        def told() -> report_rows.RunReport:
            return report_rows.RunReport(
                run=run,
                rounds=tuple(round_rows.RoundRow(**decoded(row, "extra", "record")) for row in rounds),
                trials=tuple(trial_rows.TrialInFull(**trial_columns(row, "configuration")) for row in trials),
                rejections=tuple(round_rows.Rejection(**row) for row in rejections),
                splits=splits,
                proposals=proposals,
                releases=tuple(released),
                marks=tuple(marks),
            )

        return await asyncio.to_thread(told)

    async def rounds(self, run_id: str, *, offset: int = 0, limit: int = 100) -> round_rows.RoundPage | None:
        """Decided rounds, the baseline's first; None when there is no such run."""
        async with self._database.snapshot() as connection:
            total = await count_rows(connection, "rounds", run_id)
            found = await connection.fetch(
                f"SELECT {_ROUND} FROM rounds WHERE run_id = $1 ORDER BY round OFFSET $2 LIMIT $3", run_id, offset, limit
            )
        if total is None:
            return None
        items = await asyncio.to_thread(lambda: tuple(round_rows.RoundRow(**decoded(row, "extra", "record")) for row in found))
        return round_rows.RoundPage(total=total, items=items)

    async def rejections(self, run_id: str, *, offset: int = 0, limit: int = 100) -> round_rows.RejectionPage | None:
        """Proposals that were kept out, in their order; None when there is no such run."""
        async with self._database.snapshot() as connection:
            total = await count_rows(connection, "rejections", run_id)
            found = await connection.fetch(
                f"SELECT {_REJECTION} FROM rejections WHERE run_id = $1 ORDER BY round, proposed_index OFFSET $2 LIMIT $3",
                run_id,
                offset,
                limit,
            )
        return (
            None
            if total is None
            else round_rows.RejectionPage(total=total, items=tuple(round_rows.Rejection(**row) for row in found))
        )


def _listed(row: Any) -> run_rows.ListedRun:
    return run_rows.ListedRun(**_run(decoded(row, "budget")))


def _live(row: Any) -> run_rows.LiveProgress:
    values = _run(decoded(row, "in_flight"))
    sums = {name: sum(trial[name] for trial in values["in_flight"]) for name in ("answered", "expected")}
    return run_rows.LiveProgress(**values, **sums)


def _run(row: Any) -> dict[str, Any]:
    """The flat columns of a run's row with counts and spend as objects."""
    values = dict(decoded(row, "confirmation", "unproven"))
    counts = {name: values.pop(name) for name in ("proposed", "running", "completed", "failed", "rejected", "stopped")}
    spend = {name: values.pop(f"paid_{name}") for name in ("trials", "samples", "tokens", "cost")}
    return {**values, "counts": counts, "spend": spend}


async def _run_in_full(connection: Connection, run_id: str) -> run_rows.RunDetail | None:
    row = await connection.fetchrow(
        f"SELECT {_RUN}, r.spec, r.result, r.dataset_id, d.name AS dataset_name, d.count AS dataset_count,"
        " (SELECT count(*) FROM suites s, jsonb_object_keys(coalesce(s.body -> 'same_as', '{}'))"
        " WHERE s.run_id = r.run_id) AS dataset_merged,"
        " r.evaluation_suite_id, r.search_split, r.limits, r.task_queue, r.versions, r.starts AS life, r.plan, r.noise,"
        " r.first_look,"
        " coalesce(b.lost_samples, 0) AS lost_samples, coalesce(b.lost_tokens, 0) AS lost_tokens,"
        " coalesce(b.lost_cost, 0) AS lost_cost, coalesce(b.exceeded, 0) AS lost_exceeded,"
        f" ({_REMOVALS}) AS removals, ({_HOLDS}) AS legal_holds, ({_SOURCES_REMOVED}) AS sources_removed"
        " FROM runs r JOIN datasets d USING (dataset_id) LEFT JOIN budgets b USING (run_id) WHERE r.run_id = $1",
        run_id,
    )
    if row is None:
        return None
    values = _run(decoded(row, *_JSON_OF_A_RUN))
    lost = {name: values.pop(f"lost_{name}") for name in ("samples", "tokens", "cost", "exceeded")}
    return run_rows.RunDetail(**values, lost=lost)
