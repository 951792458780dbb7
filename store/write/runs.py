"""The run's own row and its ledger: opened once, written round by round, finished once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from ratchet._canonical import canonical_json
from store.connection import Connection
from store.encoding import from_json, optional_text, storable_json, storable_text
from store.events import TERMINAL, Event, LockedRun, announce, lock_run, status_event, trial_key
from store.write.budgets import open_budget
from workflows.model.run.contract import FinishInput
from workflows.model.run.decisions import Decision
from workflows.model.run.rounds import RoundRecord
from workflows.model.spec.factors import Configuration
from workflows.model.spec.judgement import Plan
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import Split
from workflows.rules.decisions.budget import confirmation_calls, confirmation_samples

_ANNOUNCED = {"candidate_id", "kept", "verdict", "explanation"}
MOST_ANNOUNCED = 20
"""Of a round's decisions; all of them are in the round's own row."""


@dataclass(frozen=True, slots=True)
class DrawnSuite:
    """A suite with the samples drawn for it, in order."""

    suite: EvaluationSuite
    item_hashes: Sequence[str]


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


async def open_run(connection: Connection, new: NewRun) -> None:
    """Store the run's row, its suites and its baseline. Doing it twice changes nothing; a new execution starts afresh.

    Answers that were paid for stay: a run started again under its id measures the same things for nothing.
    """
    request, suite = new.request, new.suites[0].suite
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
            plan = excluded.plan, noise = NULL, best_candidate_id = NULL, best_score = NULL,
            round = 0, proposed = 0, rejected = 0, completed = 0, failed = 0, stopped = 0,
            paid_trials = 0, paid_samples = 0, paid_tokens = 0, paid_cost = 0, limits = '{}',
            task_queue = excluded.task_queue, versions = excluded.versions, spec = excluded.spec, result = NULL,
            started_at = excluded.started_at, updated_at = now(), finished_at = NULL, clock = '{}',
            execution_id = excluded.execution_id, namespace_id = excluded.namespace_id,
            life = runs.life + 1, status_changes = 0
        WHERE runs.execution_id <> excluded.execution_id
        RETURNING life
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
        storable_json(request.model_dump(mode="json", by_alias=True)),
        new.execution_id,
        new.baseline_hash,
        None if new.plan is None else storable_json(new.plan.model_dump(mode="json")),
        new.started_at,
        new.namespace_id,
    )
    if opened is None:
        return
    if opened["life"] > 1:
        await connection.execute("DELETE FROM rounds WHERE run_id = $1", new.run_id)
        await connection.execute("DELETE FROM rejections WHERE run_id = $1", new.run_id)
        await connection.execute("DELETE FROM candidates WHERE run_id = $1", new.run_id)  # and their trials
        await connection.execute("DELETE FROM suites WHERE run_id = $1", new.run_id)
    for drawn in new.suites:
        await _store_suite(connection, new.run_id, drawn)
    held_back = sum(drawn.suite.samples for drawn in new.suites if drawn.suite.split is Split.TEST)
    design = request.design(suite.samples)
    confirmation = confirmation_calls(confirmation_samples(request, design.samples, held_back), design)
    await open_budget(connection, new.run_id, request.budget, confirmation)
    run = LockedRun(new.run_id, opened["life"], "", 0)
    await announce(connection, run, [Event("status/0", "run_status_changed", {"status": "initialized"})])


async def spec_of(connection: Connection, run_id: str) -> dict[str, Any] | None:
    """What a run was asked to do, as it was stored."""
    spec = await connection.fetchval("SELECT spec FROM runs WHERE run_id = $1", run_id)
    return None if spec is None else dict(from_json(spec))


async def store_overlay(connection: Connection, config_hash: str, configuration: Configuration) -> None:
    """Store a configuration under its hash, once."""
    await connection.execute(
        "INSERT INTO overlays (config_hash, configuration) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        config_hash,
        canonical_json(configuration),
    )


async def _store_suite(connection: Connection, run_id: str, drawn: DrawnSuite) -> None:
    suite = drawn.suite
    await connection.execute(
        "INSERT INTO suites (run_id, split, suite_id, dataset_id, evaluator, samples, body)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7)",
        run_id,
        suite.split.value,
        suite.suite_id,
        suite.dataset_id,
        suite.evaluator,
        suite.samples,
        storable_json(suite.model_dump(mode="json", by_alias=True)),
    )
    await connection.execute(
        "INSERT INTO suite_samples (run_id, split, position, item_hash)"
        " SELECT $1, $2, place - 1, item_hash FROM unnest($3::text[]) WITH ORDINALITY AS drawn (item_hash, place)",
        run_id,
        suite.split.value,
        drawn.item_hashes,
    )


async def write_rounds(
    connection: Connection,
    run: LockedRun,
    records: Sequence[RoundRecord],
    *,
    status: str | None = None,
    limits: Mapping[str, JsonValue] | None = None,
) -> list[Event]:
    """Write decided rounds and the run's status, and return the events that tell of them."""
    events = [event for record in records for event in _events_of(record)]
    wanted = status or (records[-1].status if records else run.status)
    new_status = run.status if run.status in TERMINAL else wanted
    if records:
        await _write_decisions(connection, run, [decision for record in records for decision in record.decisions])
        await _write_rounds(connection, run, list({record.round: record for record in records if not record.open}.values()))
        await _write_rejections(connection, run, records)
    if records or limits or new_status != run.status:
        await _write_standing(connection, run, records, new_status, limits or {})
    if new_status != run.status:
        events.append(status_event(run, new_status))
    return events


def _events_of(record: RoundRecord) -> list[Event]:
    events: list[Event] = []
    if record.open:
        return events
    if record.new_best:
        best = {"round": record.round, "candidate_id": record.best_so_far_id, "score": record.best_so_far}
        events.append(Event(f"best/{record.round}", "best_candidate_changed", best))
    progress = {
        "round": record.round,
        "counts": record.counts.model_dump(),
        "spend": record.spend.model_dump(),
        "best_candidate_id": record.best_so_far_id,
        "best_score": record.best_so_far,
        "decisions": [decision.model_dump(mode="json", include=_ANNOUNCED) for decision in record.decisions[:MOST_ANNOUNCED]],
    }
    return [*events, Event(f"progress/{record.round}", "progress_changed", progress)]


async def _write_decisions(connection: Connection, run: LockedRun, decisions: Sequence[Decision]) -> None:
    await connection.execute(
        """
        UPDATE trials SET judged = told.decision
        FROM unnest($2::text[], $3::jsonb[]) AS told (candidate_id, decision)
        WHERE trials.run_id = $1 AND trials.candidate_id = told.candidate_id AND trials.purpose IN ('baseline', 'candidate')
        """,
        run.run_id,
        [decision.candidate_id for decision in decisions],
        [storable_json(decision.model_dump(mode="json")) for decision in decisions],
    )


async def _write_rounds(connection: Connection, run: LockedRun, records: Sequence[RoundRecord]) -> None:
    await connection.execute(
        """
        INSERT INTO rounds (run_id, round, best_candidate_id, best_score, best_so_far_id, best_so_far,
                            stop_reason, stopped, extra, record, decided_at)
        SELECT $1, * FROM unnest($2::int[], $3::text[], $4::float8[], $5::text[], $6::float8[],
                                 $7::text[], $8::bool[], $9::jsonb[], $10::jsonb[], $11::timestamptz[])
        ON CONFLICT (run_id, round) DO UPDATE SET
            best_candidate_id = excluded.best_candidate_id, best_score = excluded.best_score,
            best_so_far_id = excluded.best_so_far_id, best_so_far = excluded.best_so_far,
            stop_reason = excluded.stop_reason, stopped = excluded.stopped,
            extra = excluded.extra, record = excluded.record, decided_at = excluded.decided_at
        WHERE NOT rounds.stopped
        """,
        run.run_id,
        [record.round for record in records],
        [record.best_candidate_id for record in records],
        [record.best_score for record in records],
        [record.best_so_far_id for record in records],
        [record.best_so_far for record in records],
        [record.stop_reason for record in records],
        [record.stopped for record in records],
        [storable_json(record.extra) for record in records],
        [storable_json(record.model_dump(mode="json", exclude={"rejections"})) for record in records],
        [record.decided_at for record in records],
    )


async def _write_rejections(connection: Connection, run: LockedRun, records: Sequence[RoundRecord]) -> None:
    for record in records:
        if not record.rejections:
            continue
        await connection.executemany(
            """
            INSERT INTO rejections (run_id, round, proposed_index, reason_code, message, config_hash, parent_candidate_ids)
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING
            """,
            [
                (
                    run.run_id,
                    rejection.round,
                    rejection.proposed_index,
                    rejection.reason_code.value,
                    storable_text(rejection.message),
                    rejection.config_hash,
                    list(rejection.parent_candidate_ids),
                )
                for rejection in record.rejections
            ],
        )


async def _write_standing(
    connection: Connection, run: LockedRun, records: Sequence[RoundRecord], status: str, limits: Mapping[str, JsonValue]
) -> None:
    """The run's row after its last decided round. Counts only grow, whatever order trials and rounds arrive in."""
    last = records[-1] if records else None
    counts = last.counts if last else None
    spend = last.spend if last else None
    await connection.execute(
        """
        UPDATE runs SET
            status = $2, status_changes = status_changes + (status <> $2)::int, limits = limits || $3::jsonb,
            round = greatest(round, $4), updated_at = now(),
            best_candidate_id = coalesce($5, best_candidate_id), best_score = coalesce($6, best_score),
            proposed = greatest(proposed, $7), rejected = greatest(rejected, $8), completed = greatest(completed, $9),
            failed = greatest(failed, $10), stopped = greatest(stopped, $11),
            paid_trials = greatest(paid_trials, $12), paid_samples = greatest(paid_samples, $13),
            paid_tokens = greatest(paid_tokens, $14), paid_cost = greatest(paid_cost, $15)
        WHERE run_id = $1
        """,
        run.run_id,
        status,
        storable_json(dict(limits)),
        last.round if last else 0,
        last.best_so_far_id if last else None,
        last.best_so_far if last else None,
        *((counts.proposed, counts.rejected, counts.completed, counts.failed, counts.stopped) if counts else (0,) * 5),
        *((spend.trials, spend.samples, spend.tokens, spend.cost) if spend else (0,) * 4),
    )


async def finish_run(connection: Connection, finish: FinishInput) -> None:
    """The run's end, with whatever of its ledger is still unwritten. Doing it twice changes nothing."""
    result = finish.result
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
        storable_text(result.message),
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
        storable_json(result.model_dump(mode="json", by_alias=True)),
        result.started_at,
        result.finished_at,
    )
    events += await _cut_off_trials(connection, finish.run_id)
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


async def _cut_off_trials(connection: Connection, run_id: str) -> list[Event]:
    """Trials that the run did not wait for; their workflows may still say how they ended."""
    cut_off = await connection.fetch(
        "UPDATE trials SET status = 'cancelled', finished_at = now(), error = 'the run ended before this trial did'"
        " WHERE run_id = $1 AND status = 'running'"
        " RETURNING candidate_id, trial_id, purpose, round, index, status, score, part",
        run_id,
    )
    return [
        Event(
            f"{trial_key(row['purpose'], row['candidate_id'], row['part'])}/cancelled",
            "trial_added_or_updated",
            {name: value for name, value in row.items() if name != "part" or value},
        )
        for row in cut_off
    ]
