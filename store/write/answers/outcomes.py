"""What a shard reads and writes: the pairs without an answer, and the answers as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ratchet.plugins import Sample
from store.budget_leases import LeaseBalance, LeaseKey, Second
from store.connection import Connection, Database
from store.encoding import from_json, optional_text, storable_json
from store.encrypted_contents import Contents, contents_of
from store.write.answers.reused_answers import copy_from_other_runs
from store.write.answers.turns import forget_turns
from store.write.answers.unscored_answers import load_unscored
from store.write.limits.budgets import limits_in, write_balance
from store.write.overlays import configuration_in
from store.write.suites import suite_in
from workflows.model.run.amounts import Amount
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
                "SELECT s.body, r.limits, b.limited OR has_team_budget(s.run_id), o.configuration, nextval('answer_ids')"
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
                    FROM answers a
                    LEFT JOIN LATERAL (
                        SELECT s.answer_id FROM scores s WHERE s.answer_id = a.answer_id AND s.scorer = $5 OFFSET 0
                    ) scored ON true
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

    async def unanswered(self, shard: ShardInput, suite: EvaluationSuite) -> set[int]:
        """The pairs of the shard's range without an answer, by their place in the trial. Nothing is taken from elsewhere."""
        positions = _positions(shard)
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT drawn.position, a.replicate
                FROM suite_samples drawn
                JOIN answers a ON a.run_id = $1 AND a.config_hash = $3 AND a.target = $4 AND a.item_hash = drawn.item_hash
                WHERE drawn.run_id = $1 AND drawn.split = $2 AND drawn.position >= $5 AND drawn.position < $6
                """,
                shard.run_id,
                shard.split.value,
                shard.config_hash,
                suite.target_fingerprint,
                positions.start,
                positions.stop,
            )
        answered = {row["position"] * shard.replicates + row["replicate"] - shard.first_replicate for row in rows}
        return set(range(shard.first, shard.last)) - answered

    async def commit(
        self,
        shard: ShardInput,
        suite: EvaluationSuite,
        outcomes: Sequence[Outcome],
        lease: tuple[LeaseKey, Callable[[Second], LeaseBalance]] | None = None,
        kept: Sequence[UnscoredAnswer] = (),
    ) -> Second:
        """Store answers, scored or still to be, with what they took out of the budget; the first answer to a pair wins.

        Returns those that came second: another attempt's answer was stored after this one had looked what is missing. What
        they took was paid in vain, and the books of the `lease` say so.
        """
        if lease is None:
            opened = self._database.transaction if suite.target.keeps_turns else self._database.connection
            async with opened() as connection:
                return await _insert(connection, shard, suite, outcomes, kept)
        key, balance = lease
        async with self._database.transaction() as connection:
            second = await _insert(connection, shard, suite, outcomes, kept)
            await write_balance(connection, key, balance(second))
            return second


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
) -> Second:
    """Store answers with their scores in one statement, and scores of answers that were kept before in another. The first
    answer to a pair wins, and has the scores that were made of it; a run that was deleted meanwhile gets none. Returns what
    came second.

    The run's row is locked against its deletion, and against nothing else: answers that were committed while a deletion is
    under way would outlive it, and a later run of that id would find them.
    """
    first: dict[tuple[str, int], Outcome] = {}
    for outcome in outcomes:
        first.setdefault((outcome.item_hash, outcome.replicate), outcome)
    scored = await _numbered(connection, [outcome for outcome in first.values() if not outcome.was_kept])
    contents = contents_of(connection)
    second: Second = {}
    new: list[Outcome | UnscoredAnswer] = [*kept, *scored]
    if new:
        stored = await connection.fetch(
            _NEW_ANSWERS, *_key_of(shard, suite), *_columns_of_answers(new, contents), *_columns_of_scores(scored, contents)
        )
        if len(stored) < len(new):
            second = await _second(connection, shard, suite, new)
        await forget_turns(connection, shard, suite, new)
    were_kept = [outcome for outcome in first.values() if outcome.was_kept]
    if were_kept:
        pairs = [outcome.item_hash for outcome in were_kept], [outcome.replicate for outcome in were_kept]
        scores = _columns_of_scores(were_kept, contents)
        await connection.execute(_SCORES_OF_KEPT_ANSWERS, *_key_of(shard, suite), *scores, *pairs)
    return second


async def _second(
    connection: Connection, shard: ShardInput, suite: EvaluationSuite, new: Sequence[Outcome | UnscoredAnswer]
) -> Second:
    """Those of some answers whose pair has another one. Their own may be there already: a commit whose reply was lost."""
    rows = await connection.fetch(
        """
        SELECT given.answer_id FROM unnest($4::text[], $5::int[], $6::bigint[]) AS given (item_hash, replicate, answer_id)
        JOIN answers a ON a.config_hash = $1 AND a.target = $2 AND a.run_id = $3 AND a.item_hash = given.item_hash
            AND a.replicate = given.replicate
        WHERE a.answer_id <> given.answer_id
        """,
        shard.config_hash,
        suite.target_fingerprint,
        shard.run_id,
        [answer.item_hash for answer in new],
        [answer.replicate for answer in new],
        [answer.answer_id for answer in new],
    )
    late = {row["answer_id"] for row in rows}
    return {answer.answer_id: _taken_by(answer) for answer in new if answer.answer_id is not None and answer.answer_id in late}


def _taken_by(answer: Outcome | UnscoredAnswer) -> Amount:
    scoring = (answer.scoring_tokens, answer.scoring_cost) if isinstance(answer, Outcome) else (0, 0.0)
    return Amount(samples=1, tokens=answer.tokens + scoring[0], cost=answer.cost + scoring[1])


_NEW_ANSWERS = """
    WITH alive AS MATERIALIZED (
        SELECT FROM runs WHERE run_id = $4 FOR KEY SHARE
    ), stored AS (
        INSERT INTO answers (config_hash, target, run_id, trial_id, answer_id, item_hash, replicate, status, output, error,
                             error_class, tokens, cost, latency_ms, ttft_ms, trace, printed, echoed, cached_tokens)
        SELECT $1, $2, $4, $5, given.*
        FROM alive, unnest($6::bigint[], $7::text[], $8::int[], $9::text[], $10::json[], $11::text[], $12::text[],
                           $13::bigint[], $14::float8[], $15::float8[], $16::float8[], $17::json[], $18::text[],
                           $19::bool[], $20::bigint[]) AS given
        ON CONFLICT DO NOTHING RETURNING answer_id
    ), scored AS (
    INSERT INTO scores (answer_id, scorer, passed, scores, details, feedback, fault, error, error_class, tokens, cost, printed,
                        cached_tokens)
    SELECT answer_id, $3, given.passed, given.scores, given.details, given.feedback, given.fault, given.error,
           given.error_class, given.tokens, given.cost, given.printed, given.cached_tokens
    FROM unnest($21::bigint[], $22::bool[], $23::jsonb[], $24::jsonb[], $25::text[], $26::text[], $27::text[],
                $28::text[], $29::bigint[], $30::float8[], $31::text[], $32::bigint[])
        AS given (answer_id, passed, scores, details, feedback, fault, error, error_class, tokens, cost, printed, cached_tokens)
    JOIN stored USING (answer_id)
    ON CONFLICT DO NOTHING
    )
    SELECT answer_id FROM stored
"""
"""It is written so that PostgreSQL plans it once: a join by more than the answer's number makes it plan each batch anew, which
takes three times as long as storing the batch."""

_SCORES_OF_KEPT_ANSWERS = """
    WITH alive AS MATERIALIZED (
        SELECT FROM runs WHERE run_id = $4 FOR KEY SHARE
    )
    INSERT INTO scores (answer_id, scorer, scored_by, passed, scores, details, feedback, fault, error, error_class, tokens,
                        cost, printed, cached_tokens)
    SELECT a.answer_id, $3, CASE WHEN a.trial_id <> $5 OR a.reused_from IS NOT NULL THEN $5 END, given.passed, given.scores,
           given.details, given.feedback, given.fault, given.error, given.error_class, given.tokens, given.cost, given.printed,
           given.cached_tokens
    FROM alive, unnest($6::bigint[], $7::bool[], $8::jsonb[], $9::jsonb[], $10::text[], $11::text[], $12::text[], $13::text[],
                       $14::bigint[], $15::float8[], $16::text[], $17::bigint[], $18::text[], $19::int[])
        AS given (answer_id, passed, scores, details, feedback, fault, error, error_class, tokens, cost, printed,
                  cached_tokens, item_hash, replicate)
    JOIN answers a ON a.config_hash = $1 AND a.target = $2 AND a.run_id = $4 AND a.item_hash = given.item_hash
        AND a.replicate = given.replicate AND a.answer_id = given.answer_id
    ON CONFLICT DO NOTHING
"""


def _key_of(shard: ShardInput, suite: EvaluationSuite) -> tuple[str, str, str, str, str]:
    """What all answers and scores of a shard share."""
    return shard.config_hash, suite.target_fingerprint, suite.scorer_fingerprint, shard.run_id, shard.trial_id


async def _numbered(connection: Connection, outcomes: list[Outcome]) -> list[Outcome]:
    """Give a number to answers that have none, since they came with no shard's work."""
    if all(outcome.answer_id is not None for outcome in outcomes):
        return outcomes
    first = await connection.fetchval("SELECT nextval('answer_ids')")
    return [replace(outcome, answer_id=first + place) for place, outcome in enumerate(outcomes)]


def _columns_of_answers(new: Sequence[Outcome | UnscoredAnswer], contents: Contents) -> list[list[Any]]:
    """What targets gave. What a scorer had to say against an answer is said with its score."""
    failed = [answer if isinstance(answer, Outcome) and answer.failed_in_the_target else None for answer in new]
    return [
        [answer.answer_id for answer in new],
        [answer.item_hash for answer in new],
        [answer.replicate for answer in new],
        ["answered" if failure is None else "failed" for failure in failed],
        [contents.optional_json(answer.output if isinstance(answer, Outcome) else answer.value) for answer in new],
        [contents.optional_text(None if failure is None else failure.error) for failure in failed],
        [None if failure is None else optional_text(failure.error_class) for failure in failed],
        [answer.tokens for answer in new],
        [answer.cost for answer in new],
        [answer.latency_ms for answer in new],
        [answer.ttft_ms for answer in new],
        [contents.optional_json(answer.trace) for answer in new],
        [contents.optional_text(answer.printed) for answer in new],
        [answer.echoed or None for answer in new],
        [answer.cached_tokens or None for answer in new],
    ]


def _columns_of_scores(scored: Sequence[Outcome], contents: Contents) -> list[list[Any]]:
    """What scorers made of answers."""
    return [
        [outcome.answer_id for outcome in scored],
        [outcome.passed for outcome in scored],
        [storable_json(outcome.scores) for outcome in scored],
        [contents.optional_json(outcome.per_score or None, _passed(outcome, contents)) for outcome in scored],
        [contents.text(outcome.feedback) for outcome in scored],
        [outcome.fault for outcome in scored],
        [contents.optional_text(outcome.error if outcome.fault else None) for outcome in scored],
        [optional_text(outcome.error_class if outcome.fault else None) for outcome in scored],
        [outcome.scoring_tokens or None for outcome in scored],
        [outcome.scoring_cost or None for outcome in scored],
        [contents.optional_text(outcome.scorers_printed) for outcome in scored],
        [outcome.scoring_cached_tokens or None for outcome in scored],
    ]


def _passed(outcome: Outcome, contents: Contents) -> dict[str, Any] | None:
    """Of each score, what copies of answers look at, where queries could not look themselves."""
    return passes_in(outcome.per_score) if contents.encrypts else None


def passes_in(details: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Of the details of each score, whether it passed."""
    return {name: {"passed": detail["passed"]} for name, detail in details.items() if "passed" in detail}
