"""Runs: a row each, opened once, written round by round, finished once; deleted with everything that is theirs alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from store.connection import Connection, Database
from store.encoding import from_json, optional_text, storable_json
from store.encrypted_contents import contents_of
from store.events import TERMINAL, Event, LockedRun, announce, lock_run, status_event
from store.write.cut_off_trials import cut_off_trials
from store.write.kept_files import delete_files_of_run
from store.write.limits.budgets import limits_in, open_budget, set_limits, settle_months
from store.write.overlays import store_overlay
from store.write.retention.legal_holds import refuse_held
from store.write.rounds import write_rounds
from store.write.served_times import end_clock, run_clock, write_stood_still
from store.write.suites import DrawnSuite, store_suite
from workflows.model.run.clock import RunClock
from workflows.model.run.contract import CommitRounds, FinishInput
from workflows.model.spec.factors import Configuration
from workflows.model.spec.judgement import Plan
from workflows.model.spec.limits import AdjustedLimits
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import RUN_ENDED_FIRST, Split
from workflows.rules.decisions.budget import confirmation_calls, confirmation_samples
from workflows.rules.spec.default_splits import told_of_confirmation


@dataclass(frozen=True, slots=True)
class NewRun:
    """All that `prepare` knows of a run."""

    run_id: str
    execution_id: str
    """The workflow execution that asks. Another one for the same run id starts the run anew."""
    request: OptimizationRequest
    task_queue: str
    versions: Mapping[str, str]
    baseline_hash: str
    baseline: Configuration
    suites: Sequence[DrawnSuite]
    """The one that candidates are scored with first."""
    plan: Plan | None = None
    """What it can find out, as far as that is known."""
    started_at: datetime | None = None
    """Default: now."""
    namespace_id: str = ""
    """Of the Temporal namespace that it runs in, where that is known."""


@dataclass(frozen=True, slots=True)
class RunStanding:
    """How a run stands by its row."""

    run_id: str
    finished: bool
    last_change: datetime


class Runs:
    """Runs by their ids."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, new: NewRun) -> None:
        """Store the run's row, its suites and its baseline. Doing it twice changes nothing; a new execution starts afresh.

        Answers that were paid for stay: a run started again under its id measures the same things for nothing. Those whose
        texts were removed stay if they have the scores that it asks for; without one nobody can score them, and they go.
        """
        async with self._database.transaction() as connection:
            request, suite = new.request, new.suites[0].suite
            spec = request.model_dump(mode="json", by_alias=True)
            await store_overlay(connection, new.baseline_hash, new.baseline)
            opened = await connection.fetchrow(
                """
                INSERT INTO runs (run_id, name, use_case, experiment, status, optimizer, objective, direction, dataset_id,
                                  evaluation_suite_id, search_split, task_queue, versions, spec, execution_id,
                                  baseline_config_hash, plan, started_at, namespace_id)
                VALUES ($1, $2, $3, $4, 'initialized', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
                        coalesce($17, now()), $18)
                ON CONFLICT (run_id) DO UPDATE SET
                    name = excluded.name, use_case = excluded.use_case, experiment = excluded.experiment,
                    status = excluded.status, stop_reason = NULL, message = '', optimizer = excluded.optimizer,
                    objective = excluded.objective, direction = excluded.direction, dataset_id = excluded.dataset_id,
                    evaluation_suite_id = excluded.evaluation_suite_id, search_split = excluded.search_split,
                    baseline_config_hash = excluded.baseline_config_hash, baseline_candidate_id = NULL, baseline_score = NULL,
                    plan = excluded.plan, noise = NULL, first_look = NULL, best_candidate_id = NULL, best_score = NULL,
                    round = 0, proposed = 0, rejected = 0, completed = 0, failed = 0, stopped = 0,
                    paid_trials = 0, paid_samples = 0, paid_tokens = 0, paid_cost = 0, cached_tokens = 0, limits = '{}',
                    task_queue = excluded.task_queue, versions = excluded.versions, spec = excluded.spec, result = NULL,
                    started_at = excluded.started_at, updated_at = now(), finished_at = NULL, clock = '{}',
                    execution_id = excluded.execution_id, namespace_id = excluded.namespace_id,
                    starts = runs.starts + 1, status_changes = 0
                WHERE runs.execution_id <> excluded.execution_id
                RETURNING starts
                """,
                new.run_id,
                request.name,
                request.use_case or request.name,
                request.experiment or new.run_id,
                request.optimizer.name,
                suite.metric,
                request.objective.direction.value,
                suite.dataset_id,
                suite.suite_id,
                suite.split.value,
                new.task_queue,
                storable_json(dict(new.versions)),
                contents_of(connection).json(spec, readable_of_spec(spec)),
                new.execution_id,
                new.baseline_hash,
                None if new.plan is None else storable_json(new.plan.model_dump(mode="json")),
                new.started_at,
                new.namespace_id,
            )
            if opened is None:
                return
            if opened["starts"] > 1:
                await refuse_held(connection, new.run_id)  # its rounds and trials are written anew
                await settle_months(connection, new.run_id)
                await connection.execute("DELETE FROM rounds WHERE run_id = $1", new.run_id)
                await connection.execute("DELETE FROM run_sizes WHERE run_id = $1", new.run_id)
                await connection.execute("DELETE FROM rejections WHERE run_id = $1", new.run_id)
                await connection.execute("DELETE FROM proposed_configurations WHERE run_id = $1", new.run_id)
                await connection.execute("DELETE FROM candidates WHERE run_id = $1", new.run_id)  # and their trials
                await connection.execute("DELETE FROM suites WHERE run_id = $1", new.run_id)
                await connection.execute(  # its scorer may be mended, and have the version that it had
                    "DELETE FROM scores USING answers a WHERE a.run_id = $1 AND a.answer_id = scores.answer_id"
                    " AND scores.fault = 'scorer'",
                    new.run_id,
                )
            for drawn in new.suites:
                await store_suite(connection, new.run_id, drawn)
            if opened["starts"] > 1:
                await _forget_texts_that_were_removed(connection, new.run_id)
            held_back = sum(drawn.suite.samples for drawn in new.suites if drawn.suite.split is Split.TEST)
            design = request.design(suite.samples)
            confirmation = confirmation_calls(confirmation_samples(request, design.samples, held_back), design)
            await open_budget(connection, new.run_id, request.budget, confirmation)
            run = LockedRun(new.run_id, opened["starts"], "", 0)
            told = told_of_confirmation(request, held_back)
            began = {"status": "initialized", **({} if told is None else {"confirmation": told})}
            await announce(connection, run, [Event("status/0", "run_status_changed", began)])

    async def commit_rounds(self, entry: CommitRounds) -> RunClock:
        """Store decided rounds, the run's status and its changed limits."""
        async with self._database.transaction() as connection:
            run = await lock_run(connection, entry.run_id)
            events = await write_rounds(connection, run, entry.records, status=entry.status, limits=entry.limits)
            if entry.budget is not None:
                await set_limits(connection, entry.run_id, entry.budget)
            if entry.stood_still is not None:
                await write_stood_still(connection, entry.run_id, entry.stood_still)
            await announce(connection, run, events)
            return await run_clock(connection, entry.run_id)

    async def finish(self, finish: FinishInput) -> None:
        """The run's end, with the rounds that are still unwritten. Doing it twice changes nothing."""
        async with self._database.transaction() as connection:
            result = finish.result
            contents, told = contents_of(connection), result.model_dump(mode="json", by_alias=True)
            run = await lock_run(connection, finish.run_id)
            # A terminal status may come with the last record already; here it comes with the whole result.
            events = await write_rounds(connection, run, finish.records, status=run.status)
            await connection.execute(
                """
                UPDATE runs SET
                    status = $2, status_changes = status_changes + (status <> $2)::int, stop_reason = $3, message = $4,
                    baseline_score = coalesce($5, baseline_score), best_score = coalesce($6, best_score),
                    best_candidate_id = coalesce($7, best_candidate_id), round = greatest(round, $8),
                    proposed = $9, rejected = $10, completed = $11, failed = $12, stopped = $13,
                    paid_trials = $14, paid_samples = $15, paid_tokens = $16, paid_cost = $17, result = $18,
                    started_at = coalesce($19, started_at), finished_at = coalesce($20, finished_at, now()), updated_at = now()
                WHERE run_id = $1
                """,
                finish.run_id,
                result.status,
                result.stop_reason.value,
                contents.text(result.message),
                result.baseline_score,
                result.best_score,
                result.best_candidate_id,
                result.rounds,
                result.counts.proposed,
                result.counts.rejected,
                result.counts.completed,
                result.counts.failed,
                result.counts.stopped,
                result.spend.trials,
                result.spend.samples,
                result.spend.tokens,
                result.spend.cost,
                contents.json(told, readable_of_result(told)),
                result.started_at,
                result.finished_at,
            )
            await end_clock(connection, finish.run_id)
            events += await cut_off_trials(connection, finish.run_id, RUN_ENDED_FIRST, has_result=True)
            await connection.execute(
                "UPDATE rounds SET stopped = true, stop_reason = coalesce(stop_reason, $2)"
                " WHERE run_id = $1 AND round = (SELECT max(round) FROM rounds WHERE run_id = $1)",
                finish.run_id,
                result.stop_reason.value,
            )
            if result.status != run.status:
                events.append(status_event(run, result.status, stop_reason=result.stop_reason.value))
            ending = {
                "status": result.status,
                "stop_reason": result.stop_reason.value,
                "message": optional_text(result.message),
                "best_candidate_id": result.best_candidate_id,
                "best_score": result.best_score,
                "baseline_score": result.baseline_score,
            }
            events.append(Event(f"finished/{result.status}/{result.stop_reason.value}", "run_finished", ending))
            await announce(connection, run, events)

    async def spec_of(self, run_id: str) -> dict[str, Any] | None:
        """What a run was asked to do, as it was stored."""
        async with self._database.connection() as connection:
            spec = await connection.fetchval("SELECT spec FROM runs WHERE run_id = $1", run_id)
            return None if spec is None else dict(from_json(spec))

    async def adjusted_limits(self, run_id: str) -> AdjustedLimits:
        """The run's limits as the adjust update left them."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT r.limits, b.limited OR has_team_budget(run_id) AS budgeted"
                " FROM runs r JOIN budgets b USING (run_id) WHERE run_id = $1",
                run_id,
            )
            return AdjustedLimits() if row is None else limits_in(row["limits"], row["budgeted"])

    async def standings(self, run_ids: Sequence[str]) -> dict[str, RunStanding]:
        """The rows of those runs that have one."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT run_id, status, coalesce(finished_at, updated_at) AS at FROM runs WHERE run_id = ANY($1)", list(run_ids)
            )
            return {row["run_id"]: RunStanding(row["run_id"], row["status"] in TERMINAL, row["at"]) for row in rows}

    async def with_configuration(self, config_hash: str) -> list[str]:
        """Every run that tried a configuration, or began with it."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT run_id FROM candidates WHERE config_hash = $1"
                " UNION SELECT run_id FROM runs WHERE baseline_config_hash = $1",
                config_hash,
            )
            return [row["run_id"] for row in rows]

    async def delete(self, run_id: str) -> bool:
        """Delete rows, answers and events of a run, and overlays that no other run tried; whether there was such a run.

        Datasets stay: they are shared, and have a deletion of their own. So do answers that other runs have copied. A run
        that is held is refused.
        """
        async with self._database.transaction() as connection:
            return await delete_run(connection, run_id)


async def delete_run(connection: Connection, run_id: str) -> bool:
    """Delete everything of a run, within a transaction; whether there was such a run."""
    baseline = await connection.fetchval("SELECT baseline_config_hash FROM runs WHERE run_id = $1 FOR UPDATE", run_id)
    if baseline is None:
        return False
    await refuse_held(connection, run_id)
    # Answers have no foreign key to the run, which would cost each of them a lookup when it is stored.
    tried = await connection.fetch(
        """
        WITH gone AS (DELETE FROM answers WHERE run_id = $1 RETURNING answer_id, config_hash),
             scored AS (DELETE FROM scores USING gone WHERE scores.answer_id = gone.answer_id)
        SELECT config_hash FROM gone UNION SELECT config_hash FROM candidates WHERE run_id = $1
        """,
        run_id,
    )
    await connection.execute("DELETE FROM rate_limits WHERE run_id = $1", run_id)
    await settle_months(connection, run_id)
    await connection.execute("DELETE FROM runs WHERE run_id = $1", run_id)
    await delete_files_of_run(connection, run_id)
    await connection.execute(
        """
        DELETE FROM overlays WHERE config_hash = ANY($1)
            AND NOT EXISTS (SELECT FROM candidates c WHERE c.config_hash = overlays.config_hash)
            AND NOT EXISTS (SELECT FROM runs r WHERE r.baseline_config_hash = overlays.config_hash)
            AND NOT EXISTS (SELECT FROM releases l WHERE overlays.config_hash IN (l.overlay_hash, l.base_hash))
        """,
        [baseline, *(row["config_hash"] for row in tried)],
    )
    return True


async def _forget_texts_that_were_removed(connection: Connection, run_id: str) -> None:
    """Answers that nobody can score any more are asked for anew, and so is what models that propose once wrote."""
    if not await connection.fetchval("SELECT EXISTS (SELECT FROM removals WHERE run_id = $1 AND kind = 'texts')", run_id):
        return
    await connection.execute("DELETE FROM model_answers WHERE run_id = $1 AND texts_removed", run_id)
    await connection.execute(
        """
        WITH gone AS (
            DELETE FROM answers a WHERE a.run_id = $1 AND a.texts_removed AND NOT EXISTS (
                SELECT FROM scores s JOIN suites suite ON suite.run_id = $1 AND suite.scorer = s.scorer
                WHERE s.answer_id = a.answer_id)
            RETURNING answer_id
        )
        DELETE FROM scores USING gone WHERE scores.answer_id = gone.answer_id
        """,
        run_id,
    )


def readable_of_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Of a spec, what queries look at: limits, rules of judgement, and names of fields and task queues."""
    parts = {"execution": ("evaluation_task_queue",), "dataset": ("slices",)}
    of_parts = {
        part: {name: spec[part][name] for name in names if name in spec[part]} for part, names in parts.items() if part in spec
    }
    whole = ("retry_of", "reuse", "budget", "stop", "judgement", "seed")
    return {name: spec[name] for name in whole if name in spec} | of_parts


def readable_of_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Of a result, what queries look at: the confirmed figures, and why a winner is unproven."""
    unproven = result.get("unproven")
    kept = unproven and {name: value for name, value in unproven.items() if name not in ("configuration", "changes")}
    return {"confirmation": result.get("confirmation"), "unproven": kept}
