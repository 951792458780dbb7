"""Two trials, sample by sample: what each made of it, whether they are of one run or of two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import asyncpg

from ratchet.optimizer import Direction
from store.connection import Connection
from store.encoding import from_json
from store.read.samples.measured_samples import measured_in_batches
from store.write.suites import load_suite
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import Split
from workflows.rules.scoring.tally import Tally

Turn = Literal["fixed", "broken", "both", "neither", "missing"]
"""What became of a sample: failed and then passed, passed and then failed, passed or failed twice, or not answered in both."""

TURNS: tuple[Turn, ...] = ("fixed", "broken", "both", "neither", "missing")


@dataclass(frozen=True, slots=True)
class MeasuredTrial:
    """Which trial is compared."""

    run_id: str
    candidate_id: str
    purpose: str
    status: str
    split: str
    config_hash: str
    target: str
    scorer: str
    first_replicate: int
    replicates: int
    part: str
    score: float | None
    judgement: dict[str, Any]
    """The run's rules of judgement, as its spec states them."""
    direction: Direction
    seed: int
    finished_at: datetime | None = None
    """Whoever ends a trial once more gives it another one: until then nothing of its samples changes."""


@dataclass(frozen=True, slots=True)
class SampleInTrial:
    """One sample of a trial: how often it was answered, how often that passed, and its mean score."""

    position: int
    item_hash: str
    weight: float
    mean: float | None
    answers: int
    passed: int
    singles: tuple[float, ...] = ()
    """The scores of its answers, where the other trial answered it more or less often."""
    cluster: int = -1
    """The place of the first sample that it counts as one with."""

    @property
    def passes(self) -> bool | None:
        """Whether at least half of its answers pass; None without an answer."""
        return None if self.answers == 0 else 2 * self.passed >= self.answers


@dataclass(frozen=True, slots=True)
class SamplePair:
    """A sample that both trials drew."""

    one: SampleInTrial
    other: SampleInTrial

    @property
    def turn(self) -> Turn:
        before, after = self.one.passes, self.other.passes
        if before is None or after is None:
            return "missing"
        if before:
            return "both" if after else "broken"
        return "fixed" if after else "neither"


async def measured_trial(
    connection: Connection, run_id: str, candidate_id: str, purpose: str | None = None
) -> MeasuredTrial | None:
    """A trial; without a purpose the one that searched, of several parts the newest."""
    row = await connection.fetchrow(
        """
        SELECT t.run_id, t.candidate_id, t.purpose, t.status, t.split, t.config_hash, suite.target, suite.scorer,
               t.first_replicate, t.replicates, t.part, t.score, coalesce(r.spec -> 'judgement', '{}') AS judgement,
               r.direction, t.finished_at,
               coalesce((r.spec ->> 'seed')::numeric, 0)::bigint AS seed
        FROM trials t JOIN suites suite USING (run_id, split) JOIN runs r USING (run_id)
        WHERE t.run_id = $1 AND t.candidate_id = $2
          AND ($3::text IS NULL OR t.purpose = $3 OR ($3 = 'candidate' AND t.purpose = 'baseline'))
        ORDER BY t.purpose NOT IN ('baseline', 'candidate'), t.purpose, t.round DESC, t.index DESC LIMIT 1
        """,
        run_id,
        candidate_id,
        purpose,
    )
    if row is None:
        return None
    decoded = {"judgement": from_json(row["judgement"]), "direction": Direction(row["direction"])}
    return MeasuredTrial(**{**dict(row), **decoded})


async def _samples_of(connection: Connection, trial: MeasuredTrial) -> list[asyncpg.Record]:
    """Every sample of the trial, in the order of its split."""
    rows: list[asyncpg.Record] = await connection.fetch(
        """
        SELECT drawn.position, drawn.item_hash, s.weight, t.sample_means[drawn.position + 1] AS mean, given.answers,
               given.passed
        FROM trials t
        JOIN suites suite USING (run_id, split)
        JOIN suite_samples drawn USING (run_id, split)
        JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
        CROSS JOIN LATERAL (
            SELECT count(*) AS answers, count(*) FILTER (WHERE o.passed) AS passed FROM outcomes o
            WHERE o.config_hash = t.config_hash AND o.target = suite.target AND o.scorer = suite.scorer
              AND o.run_id = t.run_id AND o.item_hash = drawn.item_hash AND o.status <> 'unscored'
              AND o.replicate >= t.first_replicate AND o.replicate < t.first_replicate + t.replicates
        ) given
        WHERE t.run_id = $1 AND t.candidate_id = $2 AND t.purpose = $3 AND t.part = $4
          AND drawn.position >= t.first_sample AND drawn.position < t.first_sample + t.samples
        ORDER BY drawn.position
        """,
        trial.run_id,
        trial.candidate_id,
        trial.purpose,
        trial.part,
    )
    return rows


async def pairs_of(connection: Connection, one: MeasuredTrial, other: MeasuredTrial) -> list[SamplePair]:
    """The samples that both trials drew, in the order of the first."""
    ones, others = await _samples_of(connection, one), await _samples_of(connection, other)
    suites = [await load_suite(connection, trial.run_id, Split(trial.split)) for trial in (one, other)]
    answers = {row["item_hash"]: row["answers"] for row in others}
    unequal = any(answers.get(row["item_hash"], row["answers"]) != row["answers"] for row in ones)
    tallies = [await _tallied(connection, suite, trial) for suite, trial in zip(suites, (one, other), strict=True) if unequal]
    return await asyncio.to_thread(_paired, ones, others, suites[1].same_as, [tally.singles for tally in tallies])


def _paired(
    ones: Sequence[asyncpg.Record],
    others: Sequence[asyncpg.Record],
    same_as: Mapping[int, int],
    singles: Sequence[Sequence[Sequence[float]]],
) -> list[SamplePair]:
    known = {row["item_hash"]: row for row in others}
    drawn = ((row, known[row["item_hash"]]) for row in ones if row["item_hash"] in known)
    return [
        SamplePair(*_told_of(SamplePair(SampleInTrial(**one), SampleInTrial(**other)), same_as, singles))
        for one, other in drawn
    ]


async def _tallied(connection: Connection, suite: EvaluationSuite, trial: MeasuredTrial) -> Tally:
    tally = Tally(suite)
    async for batch in measured_in_batches(connection, suite, trial.config_hash, trial.first_replicate, trial.replicates):
        await asyncio.to_thread(tally.add, batch)
    return tally


def _told_of(
    pair: SamplePair, same_as: Mapping[int, int], singles: Sequence[Sequence[Sequence[float]]]
) -> Iterator[SampleInTrial]:
    """Both samples with the cluster that the second one belongs to, and with their single answers."""
    cluster = same_as.get(pair.other.position, pair.other.position)
    for place, sample in enumerate((pair.one, pair.other)):
        given = tuple(singles[place][sample.position]) if singles else ()
        yield replace(sample, singles=given, cluster=cluster)


async def answers_of(
    connection: Connection, trial: MeasuredTrial, item_hashes: list[str], *, traces: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """The answers to some samples, by sample, in the order of their replicates; with what targets kept of the way to each."""
    rows = await connection.fetch(
        f"""
        SELECT {"trace," if traces else ""} item_hash, replicate, status, passed, scores,
               coalesce(score_details, '{{}}') AS score_details, output, error, feedback, tokens, cost, latency_ms, printed,
               texts_removed
        FROM outcomes
        WHERE config_hash = $1 AND target = $2 AND scorer = $7 AND run_id = $3 AND item_hash = ANY($4)
          AND replicate >= $5 AND replicate < $6
        ORDER BY item_hash, replicate
        """,  # noqa: S608 (a constant)
        trial.config_hash,
        trial.target,
        trial.run_id,
        item_hashes,
        trial.first_replicate,
        trial.first_replicate + trial.replicates,
        trial.scorer,
    )
    given: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        decoded = {name: from_json(row[name]) for name in ("scores", "score_details", "output", *("trace",) * traces)}
        given.setdefault(row["item_hash"], []).append({**dict(row), **decoded})
    return given


async def inputs_of(connection: Connection, run_id: str, split: str, item_hashes: list[str]) -> dict[str, dict[str, Any]]:
    """Id, input, expected and tags of some samples of a split."""
    rows = await connection.fetch(
        """
        SELECT s.item_hash, s.item_id, s.input, s.expected, s.tags
        FROM suites suite JOIN samples s USING (dataset_id)
        WHERE suite.run_id = $1 AND suite.split = $2 AND s.item_hash = ANY($3)
        """,
        run_id,
        split,
        item_hashes,
    )
    return {
        row["item_hash"]: {
            "item_id": row["item_id"],
            "input": from_json(row["input"]),
            "expected": from_json(row["expected"]),
            "tags": list(row["tags"]),
        }
        for row in rows
    }
