"""What clients read of the store. Every method is one consistent look; nothing here touches a running workflow."""

# ruff: noqa: S608 (only constants of this module are put into statements; every value is a parameter)

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from store.connection import Connection, Database
from store.encoding import from_json
from store.read import datasets, replay_records, rows
from store.read.candidates import StoredCandidate, candidate_in_full
from store.read.comparisons import Comparison, Contrast, contrast, read_comparison
from store.read.event_log import newest_events
from store.read.outlines import Outline, outline
from store.read.sample_pairs import Turn, measured_trial
from store.read.slices import slices_of_run, slices_of_trial
from store.read.trial_items import items_of_trial
from store.write import deletion, releases
from store.write.datasets import delete_dataset
from store.write.served_times import STOOD_STILL
from workflows.model.spec.factors import Configuration
from workflows.model.spec.release import ReleaseState
from workflows.rules.scoring.slices import Slices

_RUN = f"""
    r.run_id, r.name, r.use_case, r.experiment, r.status, r.stop_reason, r.message, r.optimizer, r.objective, r.direction,
    r.round, r.proposed, r.completed, r.failed, r.rejected, r.stopped, r.paid_trials, r.paid_samples, r.paid_tokens,
    r.paid_cost, r.baseline_candidate_id, r.baseline_score, r.best_candidate_id, r.best_score, r.started_at, r.updated_at,
    r.finished_at, {STOOD_STILL} AS stood_still_seconds,
    (SELECT count(*) FROM trials t WHERE t.run_id = r.run_id AND t.status = 'running') AS running,
    r.result #>> '{{confirmation,judged,verdict}}' AS verdict,
    (SELECT t.judged ->> 'verdict' FROM trials t
     WHERE t.run_id = r.run_id AND t.candidate_id = r.best_candidate_id AND t.purpose = 'candidate') AS search_verdict
"""
_TRIAL = """
    t.run_id, t.trial_id, t.candidate_id, t.purpose, t.config_hash, t.round, t.index, c.parent_candidate_ids, c.rationale,
    c.extra, t.split, t.samples, t.replicates, t.first_replicate, t.status, t.score, t.coverage, t.total, t.passed, t.failed,
    t.pass_rate, t.total_cost, t.total_tokens, t.avg_latency_ms, t.avg_ttft_ms, t.stopped_early, t.error, t.failure,
    t.paid_samples, t.paid_tokens, t.paid_cost, t.duration_ms, t.started_at, t.finished_at, t.errors,
    t.part, t.first_sample, (SELECT s.samples FROM suites s WHERE s.run_id = t.run_id AND s.split = t.split) AS split_samples,
    t.reused_samples, t.lost_samples, t.lost_tokens, t.lost_cost, t.exhausted, t.score_low, t.score_high,
    coalesce(t.experiment_id, t.trial_id) AS experiment_id,
    coalesce(t.evidence, '[]') AS evidence, coalesce(t.looks, '[]') AS looks, t.judged
"""
_EVENTS = (
    "SELECT id, event_key AS key, type, payload, created_at FROM events WHERE run_id = $1 AND id > $2 ORDER BY id LIMIT $3"
)
_ROUND = "round, best_candidate_id, best_score, best_so_far_id, best_so_far, stop_reason, stopped, extra, record, decided_at"
_IN_FORCE = """
    coalesce(r.limits #>> '{stop,max_rounds}', r.spec #>> '{stop,max_rounds}')::int AS max_rounds,
    coalesce(r.spec -> 'budget', '{}') || coalesce(r.limits -> 'budget', '{}') AS budget,
    r.result -> 'confirmation' AS confirmation
"""
_IN_ORDER = "ORDER BY t.purpose NOT IN ('baseline', 'candidate'), t.purpose = 'confirmation', t.round, t.index, t.candidate_id"
_SUMMARY = ("total", "passed", "failed", "pass_rate", "total_cost", "total_tokens", "avg_latency_ms", "avg_ttft_ms", "errors")
_REJECTION = "round, proposed_index, reason_code, message, config_hash, parent_candidate_ids"


class StoreReader:
    """The store as clients see it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # Runs

    async def runs(self, *, status: str | None = None, offset: int = 0, limit: int = 100) -> list[rows.RunSummary]:
        """Runs, the newest first."""
        async with self._database.connection() as connection:
            found = await connection.fetch(
                f"SELECT {_RUN} FROM runs r WHERE $1::text IS NULL OR r.status = $1"
                " ORDER BY r.started_at DESC, r.run_id OFFSET $2 LIMIT $3",
                status,
                offset,
                limit,
            )
        return [rows.RunSummary(**_run(row)) for row in found]

    async def listed_runs(
        self, *, status: str | None = None, search: str | None = None, offset: int = 0, limit: int = 100
    ) -> rows.RunPage:
        """Runs, the newest first, whose id, name or use case contains a text; with how many there are."""
        chosen = (
            "($1::text IS NULL OR r.status = $1) AND ($2::text IS NULL OR position(lower($2) IN lower("
            "r.run_id || ' ' || r.name || ' ' || r.use_case)) > 0)"
        )
        async with self._database.snapshot() as connection:
            total = await connection.fetchval(f"SELECT count(*) FROM runs r WHERE {chosen}", status, search)
            found = await connection.fetch(
                f"SELECT {_RUN}, {_IN_FORCE} FROM runs r WHERE {chosen}"
                " ORDER BY r.started_at DESC, r.run_id OFFSET $3 LIMIT $4",
                status,
                search,
                offset,
                limit,
            )
        return rows.RunPage(total=total, items=tuple(_listed(row) for row in found))

    async def progress(self, run_id: str) -> rows.LiveProgress | None:
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
                        (SELECT count(*) FROM outcomes o WHERE o.config_hash = t.config_hash AND o.evaluator = s.evaluator
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

    async def has_run(self, run_id: str) -> bool:
        """Whether the store knows a run."""
        async with self._database.connection() as connection:
            return bool(await connection.fetchval("SELECT true FROM runs WHERE run_id = $1", run_id))

    async def stored_among(self, run_ids: Sequence[str]) -> set[str]:
        """Those of these runs that the store knows."""
        async with self._database.connection() as connection:
            found = await connection.fetch("SELECT run_id FROM runs WHERE run_id = ANY($1::text[])", list(run_ids))
        return {row["run_id"] for row in found}

    async def run(self, run_id: str) -> rows.RunDetail | None:
        """A run with its spec and result."""
        async with self._database.connection() as connection:
            return await _run_in_full(connection, run_id)

    async def report(self, run_id: str) -> rows.RunReport | None:
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
                f"SELECT {_TRIAL}, o.configuration, t.sample_means FROM trials t JOIN candidates c USING (run_id, candidate_id)"
                f" JOIN overlays o ON o.config_hash = t.config_hash WHERE t.run_id = $1 {_IN_ORDER}",
                run_id,
            )
            rejections = await connection.fetch(
                f"SELECT {_REJECTION} FROM rejections WHERE run_id = $1 ORDER BY round, proposed_index", run_id
            )
            released = await releases.releases(connection, run_id=run_id)
            splits = await replay_records.splits(connection, run_id)
            proposals = await replay_records.proposal_costs(connection, run_id)

        def told() -> rows.RunReport:
            return rows.RunReport(
                run=run,
                rounds=tuple(rows.RoundRow(**_decoded(row, "extra", "record")) for row in rounds),
                trials=tuple(rows.TrialInFull(**_trial(row, "configuration")) for row in trials),
                rejections=tuple(rows.Rejection(**row) for row in rejections),
                splits=splits,
                proposals=proposals,
                releases=tuple(released),
            )

        return await asyncio.to_thread(told)

    async def rounds(self, run_id: str, *, offset: int = 0, limit: int = 100) -> rows.RoundPage | None:
        """Decided rounds, the baseline's first; None when there is no such run."""
        async with self._database.snapshot() as connection:
            total = await _count(connection, "rounds", run_id)
            found = await connection.fetch(
                f"SELECT {_ROUND} FROM rounds WHERE run_id = $1 ORDER BY round OFFSET $2 LIMIT $3", run_id, offset, limit
            )
        if total is None:
            return None
        items = await asyncio.to_thread(lambda: tuple(rows.RoundRow(**_decoded(row, "extra", "record")) for row in found))
        return rows.RoundPage(total=total, items=items)

    async def slices(self, run_id: str, fields: Sequence[str] | None = None) -> Slices | None:
        """Baseline and best by slice: of these fields, else of those that the spec names, else by tag."""
        async with self._database.snapshot() as connection:
            return await slices_of_run(connection, run_id, fields)

    async def slices_of_trial(
        self, run_id: str, candidate_id: str, purpose: str | None = None, fields: Sequence[str] | None = None
    ) -> Slices | None:
        """A trial beside the baseline's by slice; None when there is no such trial."""
        async with self._database.snapshot() as connection:
            return await slices_of_trial(connection, run_id, candidate_id, purpose, fields)

    async def delete_run(self, run_id: str) -> bool:
        """Delete a run with everything that belongs to it alone; whether there was one."""
        async with self._database.transaction() as connection:
            return await deletion.delete_run(connection, run_id)

    # Trials

    async def trials(
        self, run_id: str, *, offset: int = 0, limit: int = 100, newest_first: bool = False
    ) -> rows.TrialPage | None:
        """Trials in the order of their proposals, confirmations last; None when there is no such run."""
        order = "ORDER BY t.started_at DESC, t.round DESC, t.index DESC" if newest_first else _IN_ORDER
        async with self._database.snapshot() as connection:
            total = await _count(connection, "trials", run_id)
            found = await connection.fetch(
                f"SELECT {_TRIAL} FROM trials t JOIN candidates c USING (run_id, candidate_id) WHERE t.run_id = $1"
                f" {order} OFFSET $2 LIMIT $3",
                run_id,
                offset,
                limit,
            )
        if total is None:
            return None
        items = await asyncio.to_thread(lambda: tuple(rows.Trial(**_trial(row)) for row in found))
        return rows.TrialPage(total=total, items=items)

    async def trial(
        self, run_id: str, candidate_id: str, purpose: str | None = None, part: str | None = None
    ) -> rows.TrialDetail | None:
        """One trial with its configuration; without a purpose the one that searched."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                f"SELECT {_TRIAL}, o.configuration, t.sample_means FROM trials t JOIN candidates c USING (run_id, candidate_id)"
                " JOIN overlays o ON o.config_hash = t.config_hash"
                f" WHERE t.run_id = $1 AND t.candidate_id = $2 AND ($3::text IS NULL OR t.purpose = $3)"
                f" AND ($4::text IS NULL OR t.part = $4) {_IN_ORDER} LIMIT 1",
                run_id,
                candidate_id,
                purpose,
                part,
            )
        return None if row is None else rows.TrialDetail(**_trial(row, "configuration"))

    async def outline(self, run_id: str, *, since: int | None = None) -> Outline | None:
        """Every trial in a few hundred bytes, or those that events after one speak of; None when there is no such run."""
        async with self._database.snapshot() as connection:
            found = await outline(connection, run_id, since)
        return None if found is None else await asyncio.to_thread(found.told)

    async def candidate(self, run_id: str, candidate_id: str) -> StoredCandidate | None:
        """A candidate with the configurations of its baseline and its parents."""
        async with self._database.snapshot() as connection:
            return await candidate_in_full(connection, run_id, candidate_id)

    async def comparison(
        self,
        baseline: tuple[str, str, str | None],
        candidate: tuple[str, str, str | None],
        *,
        only: Turn | None = None,
        offset: int = 0,
        limit: int = 20,
    ) -> Comparison | None:
        """Two trials sample by sample, each by run, candidate and purpose; None when one of them is not there."""
        async with self._database.snapshot() as connection:
            one, other = await measured_trial(connection, *baseline), await measured_trial(connection, *candidate)
            if one is None or other is None:
                return None
            found = await read_comparison(connection, one, other, only=only, offset=offset, limit=limit)
        return await asyncio.to_thread(found.told, judged=limit > 0)

    async def contrast(
        self, baseline: tuple[str, str, str | None], candidate: tuple[str, str, str | None], *, named: int
    ) -> Contrast | None:
        """Two trials as they were read, for whoever judges several together; None when one of them is not there."""
        async with self._database.snapshot() as connection:
            one, other = await measured_trial(connection, *baseline), await measured_trial(connection, *candidate)
            return None if one is None or other is None else await contrast(connection, one, other, named=named)

    async def items(
        self,
        run_id: str,
        candidate_id: str,
        *,
        purpose: str | None = None,
        part: str | None = None,
        only_failed: bool = False,
        offset: int = 0,
        limit: int = 100,
    ) -> rows.ItemPage | None:
        """The outcomes of a trial with their samples, in the suite's order; None when there is no such trial."""
        async with self._database.snapshot() as connection:
            return await items_of_trial(
                connection,
                run_id,
                candidate_id,
                purpose=purpose,
                part=part,
                only_failed=only_failed,
                offset=offset,
                limit=limit,
            )

    async def graph(self, run_id: str) -> rows.Graph | None:
        """The true lineage: every candidate, and an edge from each of its parents."""
        async with self._database.connection() as connection:
            found = await connection.fetch(
                """
                SELECT c.candidate_id, c.config_hash, c.round, c.index, t.status, t.score, c.rationale, c.parent_candidate_ids,
                       (SELECT count(*) FROM trials part WHERE part.run_id = c.run_id AND part.candidate_id = c.candidate_id
                                                           AND part.purpose = 'exploration') AS parts,
                       coalesce(c.candidate_id = r.best_candidate_id, false) AS is_best,
                       coalesce(t.purpose = 'baseline', false) AS is_baseline
                FROM runs r
                JOIN candidates c USING (run_id)
                LEFT JOIN trials t ON t.run_id = c.run_id AND t.candidate_id = c.candidate_id
                    AND t.purpose IN ('baseline', 'candidate')
                WHERE r.run_id = $1 ORDER BY c.round, c.index, c.candidate_id
                """,
                run_id,
            )
            if not found and not await connection.fetchval("SELECT true FROM runs WHERE run_id = $1", run_id):
                return None
        edges = [rows.Edge(parent=parent, child=row["candidate_id"]) for row in found for parent in row["parent_candidate_ids"]]
        return rows.Graph(nodes=tuple(rows.Node(**row) for row in found), edges=tuple(edges))

    async def rejections(self, run_id: str, *, offset: int = 0, limit: int = 100) -> rows.RejectionPage | None:
        """Proposals that were kept out, in their order; None when there is no such run."""
        async with self._database.snapshot() as connection:
            total = await _count(connection, "rejections", run_id)
            found = await connection.fetch(
                f"SELECT {_REJECTION} FROM rejections WHERE run_id = $1 ORDER BY round, proposed_index OFFSET $2 LIMIT $3",
                run_id,
                offset,
                limit,
            )
        return None if total is None else rows.RejectionPage(total=total, items=tuple(rows.Rejection(**row) for row in found))

    # Releases

    async def releases(
        self, *, prompt: str | None = None, run_id: str | None = None, undecided: bool = False, limit: int = 100
    ) -> list[ReleaseState]:
        """The audit log of releases, the newest first: of a prompt, of a run, or all of it."""
        async with self._database.connection() as connection:
            return await releases.releases(connection, prompt=prompt, run_id=run_id, undecided=undecided, limit=limit)

    async def overlay(self, config_hash: str) -> Configuration | None:
        """A configuration by its hash."""
        async with self._database.connection() as connection:
            stored = await connection.fetchval("SELECT configuration FROM overlays WHERE config_hash = $1", config_hash)
            return None if stored is None else dict(from_json(stored))

    # Events

    async def events(self, run_id: str, *, after: int = 0, limit: int = 500) -> list[rows.EventRow]:
        """What happened after an event id, in order."""
        async with self._database.connection() as connection:
            found = await connection.fetch(_EVENTS, run_id, after, limit)
        return [rows.EventRow(**_decoded(row, "payload"), run_id=run_id) for row in found]

    async def wire_events(self, run_id: str, *, after: int = 0, limit: int = 500) -> list[rows.WireEvent]:
        """The same for those who only pass it on."""
        async with self._database.connection() as connection:
            found = await connection.fetch(_EVENTS, run_id, after, limit)
        return [rows.WireEvent(*row) for row in found]

    async def newest_events(
        self, run_id: str, *, before: int | None = None, with_trials: bool = False, limit: int = 100
    ) -> tuple[rows.EventRow, ...]:
        """What happened before an event, or until now, the newest first."""
        async with self._database.connection() as connection:
            return await newest_events(connection, run_id, before=before, with_trials=with_trials, limit=limit)

    async def last_event_id(self, run_id: str) -> int:
        """The newest event of a run; 0 when it has none."""
        async with self._database.connection() as connection:
            newest = await connection.fetchval("SELECT max(id) FROM events WHERE run_id = $1", run_id)
            return int(newest or 0)

    # Datasets

    async def datasets(self) -> list[rows.DatasetRow]:
        """Every dataset, the newest first."""
        async with self._database.snapshot() as connection:
            return await datasets.all_datasets(connection)

    async def datasets_called(self, reference: str) -> list[str]:
        """The ids that a reference may mean: an id or the beginning of one, or a name, with or without a version."""
        async with self._database.connection() as connection:
            return await datasets.datasets_called(connection, reference)

    async def dataset(self, dataset_id: str) -> rows.DatasetDetail | None:
        """One dataset with what its samples have in common."""
        async with self._database.snapshot() as connection:
            return await datasets.dataset_in_full(connection, dataset_id)

    async def delete_dataset(self, dataset_id: str) -> bool:
        """Delete a dataset that no run uses, with its names; whether there was one."""
        async with self._database.transaction() as connection:
            return await delete_dataset(connection, dataset_id)

    async def samples(self, dataset_id: str, *, offset: int = 0, limit: int = 100) -> list[rows.SampleView]:
        """Samples of a dataset, in order."""
        async with self._database.connection() as connection:
            found = await connection.fetch(
                "SELECT position, item_id, item_hash, input, expected, weight, tags FROM samples"
                " WHERE dataset_id = $1 AND position >= $2 ORDER BY position LIMIT $3",
                dataset_id,
                offset,
                limit,
            )
        return [rows.SampleView(**_decoded(row, "input", "expected")) for row in found]


def _listed(row: Any) -> rows.ListedRun:
    return rows.ListedRun(**_run(_decoded(row, "budget", "confirmation")))


def _live(row: Any) -> rows.LiveProgress:
    values = _run(_decoded(row, "in_flight"))
    sums = {name: sum(trial[name] for trial in values["in_flight"]) for name in ("answered", "expected")}
    return rows.LiveProgress(**values, **sums)


def _run(row: Any) -> dict[str, Any]:
    """The flat columns of a run's row with counts and spend as objects."""
    values = dict(row)
    counts = {name: values.pop(name) for name in ("proposed", "running", "completed", "failed", "rejected", "stopped")}
    spend = {name: values.pop(f"paid_{name}") for name in ("trials", "samples", "tokens", "cost")}
    return {**values, "counts": counts, "spend": spend}


async def _run_in_full(connection: Connection, run_id: str) -> rows.RunDetail | None:
    row = await connection.fetchrow(
        f"SELECT {_RUN}, r.spec, r.result, r.dataset_id, d.name AS dataset_name, d.count AS dataset_count,"
        " (SELECT count(*) FROM suites s, jsonb_object_keys(coalesce(s.body -> 'same_as', '{}'))"
        " WHERE s.run_id = r.run_id) AS dataset_merged,"
        " r.evaluation_suite_id, r.search_split, r.limits, r.task_queue, r.versions, r.life, r.plan, r.noise,"
        " coalesce(b.lost_samples, 0) AS lost_samples, coalesce(b.lost_tokens, 0) AS lost_tokens,"
        " coalesce(b.lost_cost, 0) AS lost_cost, coalesce(b.exceeded, 0) AS lost_exceeded"
        " FROM runs r JOIN datasets d USING (dataset_id) LEFT JOIN budgets b USING (run_id) WHERE r.run_id = $1",
        run_id,
    )
    if row is None:
        return None
    values = _run(_decoded(row, "spec", "result", "limits", "versions", "plan", "noise"))
    lost = {name: values.pop(f"lost_{name}") for name in ("samples", "tokens", "cost", "exceeded")}
    return rows.RunDetail(**values, lost=lost)


def _trial(row: Any, *json_columns: str) -> dict[str, Any]:
    """The flat columns of a trial's row with its summary as an object."""
    values = _decoded(row, "extra", "errors", "evidence", "looks", "judged", *json_columns)
    summary = {name: values.pop(name) for name in _SUMMARY}
    return {**values, "summary": {name: value for name, value in summary.items() if value is not None}}


def _decoded(row: Any, *json_columns: str) -> dict[str, Any]:
    values = dict(row)
    return {**values, **{name: from_json(values[name]) for name in json_columns}}


async def _count(connection: Connection, table: str, run_id: str) -> int | None:
    """How many rows of a run a table has; None when there is no such run."""
    counted: int | None = await connection.fetchval(
        f"SELECT (SELECT count(*) FROM {table} WHERE run_id = $1) FROM runs WHERE run_id = $1", run_id
    )
    return counted
