"""Trials: a row that begins as running and ends, once, with what was measured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ratchet._formats.canonical import canonical_json, content_hash
from store.connection import Connection, Database
from store.encoding import optional_json, optional_text, storable_json
from store.encrypted_contents import contents_of
from store.events import TERMINAL, TERMINATED, Event, LockedRun, announce, lock_run, trial_key
from store.schema import StoreError
from store.write.rounds import write_rounds
from store.write.served_times import run_clock
from store.write.test_split import refuse_unopened
from workflows.model.run.clock import RunClock
from workflows.model.run.first_look import FirstLook
from workflows.model.trial import SEARCHING, Conclusion, Purpose, ShardInput, TrialInput, TrialResult


@dataclass(frozen=True, slots=True)
class TrialExperiment:
    """What the store knows of a trial's experiment."""

    experiment_id: str | None
    starts: int
    """How often the run was started under its id; a later start asks for experiments of its own."""


class Trials:
    """Trials by the candidate that they measure, its purpose, and the part of the samples."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, trial: TrialInput) -> RunClock:
        """The rounds that travel with the trial, its overlay, its candidate, its row and its event."""
        async with self._database.transaction() as connection:
            run = await lock_run(connection, trial.run_id)
            # Where its run was cancelled meanwhile, nobody would ever say how it ended.
            if run.status not in TERMINAL - {TERMINATED}:
                await _begin(connection, run, trial)
            return await run_clock(connection, trial.run_id)

    async def record(
        self,
        result: TrialResult,
        conclusion: Conclusion,
        sample_means: Sequence[float | None],
        look: FirstLook | None = None,
        sample_states: Sequence[int | None] | None = None,
        *,
        cached_tokens: int = 0,
    ) -> None:
        """The trial's end: its row, the run's totals and the event. Recording the same end again changes nothing."""
        interval = await asyncio.to_thread(_interval_of, result.objective_score, sample_means)
        async with self._database.transaction() as connection:
            trial = conclusion.trial
            run = await lock_run(connection, trial.run_id)
            before = await connection.fetchrow(
                "SELECT status, score, coverage, total, paid_samples, paid_tokens, paid_cost, cached_tokens FROM trials"
                " WHERE run_id = $1 AND candidate_id = $2 AND purpose = $3 AND part = $4",
                trial.run_id,
                trial.candidate.candidate_id,
                trial.purpose.value,
                trial.part,
            )
            after = (
                result.status,
                result.objective_score,
                result.coverage,
                result.summary.total,
                result.paid_samples,
                result.paid_tokens,
                result.paid_cost,
                cached_tokens,
            )
            events: list[Event] = []
            if before is None:  # its run was over before it began
                await _insert_trial(connection, trial)
                events.append(_trial_event(trial, "running", None))
            elif tuple(before) == after:
                return
            counted = before["status"] if before is not None and before["status"] != "running" else None
            await _end_trial(connection, result, conclusion, sample_means, sample_states, interval, cached_tokens)
            await connection.execute(
                """
                WITH unmetered AS (
                    UPDATE budgets SET
                        spent_samples = spent_samples + $6 - t.leased_samples,
                        spent_tokens = spent_tokens + $7 - t.leased_tokens,
                        spent_cost = spent_cost + $8 - t.leased_cost, tokens_of_calls = tokens_of_calls + $7 - t.leased_tokens,
                        cost_of_calls = cost_of_calls + $8 - t.leased_cost
                    FROM trials t
                    WHERE budgets.run_id = $1 AND NOT $12
                      AND t.run_id = $1 AND t.candidate_id = $10 AND t.purpose = $13 AND t.part = $14
                )
                UPDATE runs SET
                    completed = completed + $2, failed = failed + $3, stopped = stopped + $4, paid_trials = paid_trials + $5,
                    paid_samples = paid_samples + $6, paid_tokens = paid_tokens + $7, paid_cost = paid_cost + $8,
                    cached_tokens = cached_tokens + $15,
                    baseline_candidate_id = CASE WHEN $9 THEN $10 ELSE baseline_candidate_id END,
                    baseline_score = CASE WHEN $9 THEN $11 ELSE baseline_score END, updated_at = now()
                WHERE run_id = $1
                """,
                trial.run_id,
                *((0, 0, 0, 0) if run.is_finished else _change_of_counts(trial.purpose, counted, result.status)),
                result.paid_samples - (before["paid_samples"] if before else 0),
                result.paid_tokens - (before["paid_tokens"] if before else 0),
                result.paid_cost - (before["paid_cost"] if before else 0.0),
                trial.purpose is Purpose.BASELINE,
                trial.candidate.candidate_id,
                result.objective_score,
                trial.metered,
                trial.purpose.value,
                trial.part,
                cached_tokens - (before["cached_tokens"] if before else 0),
            )
            if conclusion.lost:
                await _count_lost(connection, conclusion)
            learned = [None if found is None else found.model_dump(mode="json") for found in (result.noise, result.plan)]
            seen = None if look is None else contents_of(connection).json(look.model_dump(mode="json"))
            if seen is not None or any(found is not None for found in learned):
                await connection.execute(
                    "UPDATE runs SET noise = coalesce($2, noise), plan = coalesce($3, plan),"
                    " first_look = coalesce($4, first_look) WHERE run_id = $1",
                    trial.run_id,
                    *(optional_json(found) for found in learned),
                    seen,
                )
            event = _trial_event(trial, result.status, result.objective_score)
            event.payload.update({"first_look": list(result.first_look)} if result.first_look else {})
            await announce(connection, run, [*events, event])

    async def experiment_of(self, trial: ShardInput) -> TrialExperiment:
        """The external experiment that was triggered for a trial, if there is one."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT t.experiment_id, r.starts FROM trials t JOIN runs r USING (run_id)"
                " WHERE t.run_id = $1 AND t.candidate_id = $2 AND t.trial_id = $3",
                trial.run_id,
                trial.candidate_id,
                trial.trial_id,
            )
            if row is None:
                raise StoreError(f"trial {trial.trial_id!r} is not in the store")
            return TrialExperiment(row["experiment_id"], row["starts"])

    async def record_experiment(self, trial: ShardInput, experiment_id: str) -> None:
        """Keep which experiment belongs to a trial, before anything waits for it. The first stays: a trial never has two."""
        async with self._database.connection() as connection:
            await connection.execute(
                "UPDATE trials SET experiment_id = $4 WHERE run_id = $1 AND candidate_id = $2 AND trial_id = $3"
                " AND experiment_id IS NULL",
                trial.run_id,
                trial.candidate_id,
                trial.trial_id,
                experiment_id,
            )


async def _begin(connection: Connection, run: LockedRun, trial: TrialInput) -> None:
    await refuse_unopened(connection, trial)
    status = "running" if run.status == "initialized" else run.status
    status = trial.records[-1].status if trial.records else status
    events = await write_rounds(connection, run, trial.records, status=status)
    if await _insert_trial(connection, trial):
        events.append(_trial_event(trial, "running", None))
    await announce(connection, run, events)


async def _insert_trial(connection: Connection, trial: TrialInput) -> bool:
    """Whether the trial is new. One that is known keeps its row: a finished trial never runs again."""
    candidate = trial.candidate
    if content_hash(candidate.configuration) != candidate.config_hash:
        raise StoreError(f"candidate {candidate.candidate_id!r}: its configuration does not have the hash it names")
    contents = contents_of(connection)
    inserted = await connection.fetchval(
        """
        WITH overlay AS (
            INSERT INTO overlays (config_hash, configuration) VALUES ($4, $14) ON CONFLICT DO NOTHING
        ), candidate AS (
            INSERT INTO candidates (run_id, candidate_id, config_hash, round, index, first_replicate,
                                    parent_candidate_ids, rationale, extra)
            VALUES ($1, $2, $4, $5, $6, $7, $11, $12, $13)
            ON CONFLICT (run_id, candidate_id) DO UPDATE SET round = excluded.round, index = excluded.index
            WHERE $8 = 'candidate' AND (candidates.round, candidates.index) < (excluded.round, excluded.index)
        )
        INSERT INTO trials (run_id, candidate_id, trial_id, config_hash, round, index, first_replicate,
                            purpose, split, samples, replicates, part, first_sample, metered, status)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $15, $16, $17, $18, 'running')
        ON CONFLICT (run_id, candidate_id, purpose, part) DO NOTHING
        RETURNING true
        """,
        trial.run_id,
        candidate.candidate_id,
        trial.trial_id,
        candidate.config_hash,
        candidate.round,
        candidate.index,
        candidate.first_replicate,
        trial.purpose.value,
        trial.split.value,
        trial.samples,
        list(candidate.parent_candidate_ids),
        contents.optional_text(candidate.rationale),
        contents.json(candidate.extra, {"origin": candidate.extra["origin"]} if "origin" in candidate.extra else None),
        contents.json_text(canonical_json(candidate.configuration)),
        trial.replicates,
        trial.part,
        trial.first,
        trial.metered,
    )
    return bool(inserted)


def _trial_event(trial: TrialInput, status: str, score: float | None) -> Event:
    payload = {
        "candidate_id": trial.candidate.candidate_id,
        "trial_id": trial.trial_id,
        "purpose": trial.purpose.value,
        "round": trial.candidate.round,
        "index": trial.candidate.index,
        "status": status,
        "score": score,
    }
    if trial.part:
        payload |= {"part": trial.part, "samples": trial.samples}
    key = trial_key(trial.purpose.value, trial.candidate.candidate_id, trial.part)
    return Event(f"{key}/{status}{'/rest' if trial.completes else ''}", "trial_added_or_updated", payload)


async def _count_lost(connection: Connection, conclusion: Conclusion) -> None:
    """Calls without an answer that no budget was set aside for."""
    trial = conclusion.trial
    await connection.execute(
        """
        WITH of_run AS (UPDATE budgets SET lost_samples = lost_samples + $5 WHERE run_id = $1)
        UPDATE trials SET lost_samples = lost_samples + $5
        WHERE run_id = $1 AND candidate_id = $2 AND purpose = $3 AND part = $4
        """,
        trial.run_id,
        trial.candidate.candidate_id,
        trial.purpose.value,
        trial.part,
        conclusion.lost,
    )


def _change_of_counts(purpose: Purpose, before: str | None, after: str) -> tuple[int, int, int, int]:
    """By how much completed, failed, stopped and paid trials change. Only trials of the search stand for candidates."""
    paid = 0 if before else 1
    if purpose not in SEARCHING:
        return (0, 0, 0, paid)
    kinds = ({"completed"}, {"failed"}, {"cancelled", "timeout"})
    completed, failed, stopped = ((after in kind) - (before in kind) for kind in kinds)
    return completed, failed, stopped, paid


def _interval_of(score: float | None, sample_means: Sequence[float | None]) -> tuple[float, float] | None:
    """Compute the interval of a score. Statistics are loaded with the first: by a worker's start nobody needs them."""
    from workflows.rules.statistics.intervals import interval_of_score

    return interval_of_score(score, sample_means)


async def _end_trial(
    connection: Connection,
    result: TrialResult,
    conclusion: Conclusion,
    sample_means: Sequence[float | None],
    sample_states: Sequence[int | None] | None,
    interval: tuple[float, float] | None,
    cached_tokens: int,
) -> None:
    summary, trial = result.summary, conclusion.trial
    looks = None if trial.completes else storable_json([look.model_dump(mode="json") for look in conclusion.looks])
    await connection.execute(
        """
        UPDATE trials SET
            status = $4, score = $5, coverage = $6, total = $7, passed = $8, failed = $9, pass_rate = $10,
            total_cost = $11, total_tokens = $12, avg_latency_ms = $13, avg_ttft_ms = $14, stopped_early = $15,
            error = $16, failure = $17, sample_means = $18, paid_samples = $19, paid_tokens = $20, paid_cost = $21,
            duration_ms = $22, errors = $23, reused_samples = $24, evidence = $25, score_low = $26, score_high = $27,
            looks = coalesce($28, looks), exhausted = $29, team_rest = $31, sample_states = $32,
            cached_tokens = $33, finished_at = now()
        WHERE run_id = $1 AND candidate_id = $2 AND purpose = $3 AND part = $30
        """,
        trial.run_id,
        trial.candidate.candidate_id,
        trial.purpose.value,
        result.status,
        result.objective_score,
        result.coverage,
        summary.total,
        summary.passed,
        summary.failed,
        summary.pass_rate,
        summary.total_cost,
        summary.total_tokens,
        summary.avg_latency_ms,
        summary.avg_ttft_ms,
        optional_text(result.stopped_early),
        contents_of(connection).optional_text(result.error),
        result.failure,
        list(sample_means),
        result.paid_samples,
        result.paid_tokens,
        result.paid_cost,
        result.duration_ms,
        storable_json(summary.errors),
        result.reused_samples,
        storable_json([evidence.model_dump(mode="json") for evidence in result.evidence]),
        *(interval or (None, None)),
        looks,
        result.exhausted,
        trial.part,
        optional_json(None if result.team_rest is None else result.team_rest.model_dump(mode="json")),
        sample_states if sample_states is None else list(sample_states),
        cached_tokens,
    )
