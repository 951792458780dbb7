"""Decided rounds: written with a run's status and its event, in the transaction of whoever has them at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from store.connection import Connection
from store.encoding import storable_json
from store.encrypted_contents import contents_of
from store.events import TERMINAL, Event, LockedRun, status_event
from workflows.model.run.decisions import Decision
from workflows.model.run.rounds import RoundRecord

_ANNOUNCED = {"candidate_id", "kept", "verdict", "explanation"}
MOST_ANNOUNCED = 20
"""Of a round's decisions; all of them are in the round's own row."""


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
    contents = contents_of(connection)
    await connection.execute(
        """
        UPDATE trials SET judged = told.decision
        FROM unnest($2::text[], $3::jsonb[]) AS told (candidate_id, decision)
        WHERE trials.run_id = $1 AND trials.candidate_id = told.candidate_id AND trials.purpose IN ('baseline', 'candidate')
        """,
        run.run_id,
        [decision.candidate_id for decision in decisions],
        [contents.json(decision.model_dump(mode="json"), _readable(decision)) for decision in decisions],
    )


def _readable(decision: Decision) -> dict[str, Any]:
    """Of a decision, what queries look at; how it is explained may quote a failure."""
    return {"verdict": None if decision.verdict is None else decision.verdict.value, "kept": decision.kept}


async def _write_rounds(connection: Connection, run: LockedRun, records: Sequence[RoundRecord]) -> None:
    contents = contents_of(connection)
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
        [contents.json(record.extra) for record in records],
        [contents.json(record.model_dump(mode="json", exclude={"rejections"})) for record in records],
        [record.decided_at for record in records],
    )


async def _write_rejections(connection: Connection, run: LockedRun, records: Sequence[RoundRecord]) -> None:
    for record in records:
        if not record.rejections:
            continue
        await connection.executemany(
            """
            INSERT INTO rejections (run_id, round, proposed_index, reason_code, message, config_hash, parent_candidate_ids,
                                    proposed_hash)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING
            """,
            [
                (
                    run.run_id,
                    rejection.round,
                    rejection.proposed_index,
                    rejection.reason_code.value,
                    contents_of(connection).text(rejection.message),
                    rejection.config_hash,
                    list(rejection.parent_candidate_ids),
                    rejection.proposed_hash,
                )
                for rejection in record.rejections
            ],
        )


async def _write_standing(
    connection: Connection, run: LockedRun, records: Sequence[RoundRecord], status: str, limits: Mapping[str, JsonValue]
) -> None:
    """The run's row after its last decided round. Counts only grow, whatever order trials and rounds arrive in, and the best is
    that of the latest round: an attempt that was stopped for a minute may write after all others, even after the end."""
    last = records[-1] if records else None
    counts = last.counts if last else None
    spend = last.spend if last else None
    await connection.execute(
        """
        UPDATE runs SET
            status = $2, status_changes = status_changes + (status <> $2)::int, limits = limits || $3::jsonb,
            round = greatest(round, $4), updated_at = now(),
            best_candidate_id = CASE WHEN $4 >= round AND (finished_at IS NULL OR status = 'terminated')
                THEN coalesce($5, best_candidate_id) ELSE best_candidate_id END,
            best_score = CASE WHEN $4 >= round AND (finished_at IS NULL OR status = 'terminated')
                THEN coalesce($6, best_score) ELSE best_score END,
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
