"""What a shard reads and writes: the pairs without an answer, and the answers as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.plugins import Sample
from store.budget_leases import LeaseBalance, LeaseKey
from store.connection import Connection, Database
from store.encoding import from_json, optional_json, optional_text, storable_json, storable_text
from store.write.budgets import limits_in, write_balance
from store.write.overlays import configuration_in
from store.write.reused_answers import copy_from_other_runs
from store.write.suites import suite_in
from store.write.unscored_answers import load_unscored
from workflows.model.spec.limits import AdjustedLimits
from workflows.model.suite import EvaluationSuite, Outcome, UnscoredAnswer
from workflows.model.trial import ShardInput


@dataclass(frozen=True, slots=True)
class UnansweredPair:
    """One (sample, replicate) that needs an answer, or a score."""

    position: int
    item_hash: str
    replicate: int
    sample: Sample
    answer_id: int
    """Of its answer, be that stored already or yet to come."""
    kept: UnscoredAnswer | None = None
    """What the target answered, when only the score is missing."""


@dataclass(frozen=True, slots=True)
class ShardWork:
    """What a shard has to do."""

    suite: EvaluationSuite
    configuration: dict[str, Any]
    pairs: list[UnansweredPair]
    """Those of the range that have no score yet, in order."""
    found: int
    """How many already had one."""
    adjusted: AdjustedLimits
    """The run's limits, where they were changed since it began."""


class Outcomes:
    """Answers with their scores."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def missing(self, shard: ShardInput) -> ShardWork:
        """The pairs of the shard's range that nobody has answered or scored yet."""
        async with self._database.connection() as connection:
            told = await connection.fetchrow(
                "SELECT s.body, r.limits, b.limited, o.configuration, nextval('answer_ids')"
                " FROM suites s JOIN runs r USING (run_id) JOIN budgets b USING (run_id)"
                " LEFT JOIN overlays o ON o.config_hash = $3 WHERE s.run_id = $1 AND s.split = $2",
                shard.run_id,
                shard.split.value,
                shard.config_hash,
            )
            body, limits, budgeted, overlay, first_id = told or (None, "{}", False, None, 0)
            suite = suite_in(body, shard.run_id, shard.split)
            configuration = configuration_in(overlay, shard.config_hash)
            positions = _positions(shard)
            if suite.reuse == "always" or suite.retry_of is not None or suite.rescore_of is not None:
                await copy_from_other_runs(connection, shard, suite, positions)
            rows = await connection.fetch(
                """
                SELECT drawn.position, drawn.item_hash, s.item_id, s.input, s.expected, s.weight, s.tags, known.*
                FROM suite_samples drawn
                JOIN samples s ON s.dataset_id = $6 AND s.item_hash = drawn.item_hash
                CROSS JOIN LATERAL (
                    SELECT coalesce(array_agg(a.replicate) FILTER (WHERE scored.answer_id IS NOT NULL), '{}') AS scored,
                           count(*) > count(scored.answer_id) AS some_are_kept
                    FROM answers a LEFT JOIN scores scored ON scored.answer_id = a.answer_id AND scored.scorer = $5
                    WHERE a.config_hash = $3 AND a.target = $4 AND a.run_id = $1 AND a.item_hash = drawn.item_hash
                      AND a.replicate >= $9 AND a.replicate < $9 + $10
                ) known
                WHERE drawn.run_id = $1 AND drawn.split = $2 AND drawn.position >= $7 AND drawn.position < $8
                ORDER BY drawn.position
                """,
                shard.run_id,
                shard.split.value,
                shard.config_hash,
                suite.target_fingerprint,
                suite.scorer_fingerprint,
                suite.dataset_id,
                positions.start,
                positions.stop,
                shard.first_replicate,
                shard.replicates,
            )
            with_kept = [row["item_hash"] for row in rows if row["some_are_kept"]]
            kept = await load_unscored(connection, shard, suite, with_kept) if with_kept else {}
            pairs: list[UnansweredPair] = []
            in_range = 0
            for row in rows:
                wanted = _replicates_of(shard, row["position"])
                in_range += len(wanted)
                missing = [replicate for replicate in wanted if replicate not in row["scored"]]
                sample = _sample(row) if missing else None
                for replicate in missing:
                    assert sample is not None
                    known = kept.get((row["item_hash"], replicate))
                    answer_id = first_id + len(pairs) if known is None else known.answer_id
                    pairs.append(UnansweredPair(row["position"], row["item_hash"], replicate, sample, answer_id, known))
            return ShardWork(suite, configuration, pairs, in_range - len(pairs), limits_in(limits, budgeted))

    async def commit(
        self,
        shard: ShardInput,
        suite: EvaluationSuite,
        outcomes: Sequence[Outcome],
        lease: tuple[LeaseKey, LeaseBalance] | None = None,
        kept: Sequence[UnscoredAnswer] = (),
    ) -> None:
        """Store answers, scored or still to be, with what they took out of the budget; the first answer to a pair wins."""
        if lease is None:
            async with self._database.connection() as connection:
                await _insert(connection, shard, suite, outcomes, kept)
            return
        async with self._database.transaction() as connection:
            await _insert(connection, shard, suite, outcomes, kept)
            await write_balance(connection, *lease)


def _positions(shard: ShardInput) -> range:
    """The samples that the range touches."""
    return range(shard.first // shard.replicates, -(-shard.last // shard.replicates))


def _replicates_of(shard: ShardInput, position: int) -> range:
    """Which replicates of a sample are in the range: all of them, except perhaps at its two ends."""
    start = max(shard.first - position * shard.replicates, 0)
    end = min(shard.last - position * shard.replicates, shard.replicates)
    return range(shard.first_replicate + start, shard.first_replicate + end)


def _sample(row: Any) -> Sample:
    return Sample(
        id=row["item_id"],
        input=from_json(row["input"]),
        expected=from_json(row["expected"]),
        weight=row["weight"],
        tags=tuple(row["tags"]),
    )


async def _insert(
    connection: Connection,
    shard: ShardInput,
    suite: EvaluationSuite,
    outcomes: Sequence[Outcome],
    kept: Sequence[UnscoredAnswer],
) -> None:
    """Store answers and scores in one statement. The first answer to a pair wins, and has the scores that were made of it; a
    run that was deleted meanwhile gets none.

    The run's row is locked against its deletion, and against nothing else: answers that were committed while a deletion is
    under way would outlive it, and a later run of that id would find them.
    """
    first: dict[tuple[str, int], Outcome] = {}
    for outcome in outcomes:
        first.setdefault((outcome.item_hash, outcome.replicate), outcome)
    scored = list(first.values())
    new: list[Outcome | UnscoredAnswer] = [*kept, *(outcome for outcome in scored if not outcome.was_kept)]
    if not new and not scored:
        return
    await connection.execute(
        """
        WITH alive AS MATERIALIZED (
            SELECT FROM runs WHERE run_id = $4 FOR KEY SHARE
        ), stored AS (
            INSERT INTO answers (config_hash, target, run_id, trial_id, answer_id, item_hash, replicate, status, output, error,
                                 error_class, tokens, cost, latency_ms, ttft_ms, trace, printed)
            SELECT $1, $2, $4, $5, coalesce(given.answer_id, nextval('answer_ids')), given.item_hash, given.replicate,
                   given.status, given.output, given.error, given.error_class, given.tokens, given.cost, given.latency_ms,
                   given.ttft_ms, given.trace, given.printed
            FROM alive, unnest($6::bigint[], $7::text[], $8::int[], $9::text[], $10::json[], $11::text[], $12::text[],
                               $13::bigint[], $14::float8[], $15::float8[], $16::float8[], $17::json[], $18::text[])
                AS given (answer_id, item_hash, replicate, status, output, error, error_class, tokens, cost, latency_ms,
                          ttft_ms, trace, printed)
            ON CONFLICT DO NOTHING RETURNING answer_id, item_hash, replicate
        )
        INSERT INTO scores (answer_id, scorer, scored_by, passed, scores, details, feedback, fault, error, error_class, tokens,
                            cost, printed)
        SELECT coalesce(stored.answer_id, earlier.answer_id), $3, earlier.scored_by, given.passed, given.scores, given.details,
               given.feedback, given.fault, given.error, given.error_class, nullif(given.tokens, 0), nullif(given.cost, 0),
               given.printed
        FROM alive, unnest($19::bigint[], $20::text[], $21::int[], $22::bool[], $23::bool[], $24::jsonb[], $25::jsonb[],
                           $26::text[], $27::text[], $28::text[], $29::text[], $30::bigint[], $31::float8[], $32::text[])
            AS given (answer_id, item_hash, replicate, was_kept, passed, scores, details, feedback, fault, error, error_class,
                      tokens, cost, printed)
        LEFT JOIN stored ON stored.item_hash = given.item_hash AND stored.replicate = given.replicate
        LEFT JOIN LATERAL (
            SELECT a.answer_id, CASE WHEN a.trial_id <> $5 OR a.reused_from IS NOT NULL THEN $5 END AS scored_by FROM answers a
            WHERE given.was_kept AND a.config_hash = $1 AND a.target = $2 AND a.run_id = $4
              AND a.item_hash = given.item_hash AND a.replicate = given.replicate
            OFFSET 0
        ) earlier ON earlier.answer_id = given.answer_id
        WHERE stored.answer_id IS NOT NULL OR earlier.answer_id IS NOT NULL
        ON CONFLICT DO NOTHING
        """,
        shard.config_hash,
        suite.target_fingerprint,
        suite.scorer_fingerprint,
        shard.run_id,
        shard.trial_id,
        *_columns_of_answers(new),
        *_columns_of_scores(scored),
    )


def _columns_of_answers(new: Sequence[Outcome | UnscoredAnswer]) -> list[list[Any]]:
    """What targets gave. What a scorer had to say against an answer is said with its score."""
    failed = [answer if isinstance(answer, Outcome) and answer.failed_in_the_target else None for answer in new]
    return [
        [answer.answer_id for answer in new],
        [answer.item_hash for answer in new],
        [answer.replicate for answer in new],
        ["answered" if failure is None else "failed" for failure in failed],
        [optional_json(answer.output if isinstance(answer, Outcome) else answer.value) for answer in new],
        [optional_text(None if failure is None else failure.error) for failure in failed],
        [optional_text(None if failure is None else failure.error_class) for failure in failed],
        [answer.tokens for answer in new],
        [answer.cost for answer in new],
        [answer.latency_ms for answer in new],
        [answer.ttft_ms for answer in new],
        [optional_json(answer.trace) for answer in new],
        [optional_text(answer.printed) for answer in new],
    ]


def _columns_of_scores(scored: Sequence[Outcome]) -> list[list[Any]]:
    """What scorers made of answers."""
    return [
        [outcome.answer_id for outcome in scored],
        [outcome.item_hash for outcome in scored],
        [outcome.replicate for outcome in scored],
        [outcome.was_kept for outcome in scored],
        [outcome.passed for outcome in scored],
        [storable_json(outcome.scores) for outcome in scored],
        [optional_json(outcome.per_score or None) for outcome in scored],
        [storable_text(outcome.feedback) for outcome in scored],
        [outcome.fault for outcome in scored],
        [optional_text(outcome.error if outcome.fault else None) for outcome in scored],
        [optional_text(outcome.error_class if outcome.fault else None) for outcome in scored],
        [outcome.scoring_tokens for outcome in scored],
        [outcome.scoring_cost for outcome in scored],
        [optional_text(outcome.scorers_printed) for outcome in scored],
    ]
