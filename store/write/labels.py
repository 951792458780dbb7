"""Questions that people are asked about answers, and what they say. No decision reads it.

Which answers are asked about is drawn here, by a seed that is stored: a hash of the seed and of the answer's key orders them,
so the same are drawn again from the same answers.
"""

# ruff: noqa: S608 (only constants are put into statements; every value is a parameter)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ratchet._frozen import Payload
from store.connection import Connection, Database
from store.encoding import from_json, storable_text
from store.encrypted_contents import contents_of
from store.events import lock_run
from store.read.labels import Drawn, QuestionKind
from store.read.samples.sample_pairs import MeasuredTrial, measured_trial
from store.schema import StoreError

MOST_OF_A_RUN: Final = 100
"""Questions."""
CANDIDATE, CONFIRMATION = "candidate", "confirmation"

_ANSWERED: Final = """
    SELECT item_hash, replicate - $5 AS place, replicate, score_details, output FROM outcomes
    WHERE config_hash = $1 AND target = $2 AND scorer = $3 AND run_id = $4 AND status <> 'failed' AND NOT texts_removed
      AND replicate >= $5 AND replicate < $5 + $6
      AND item_hash IN (SELECT item_hash FROM suite_samples WHERE run_id = $4 AND split = $7)
"""
_DISAGREES: Final = """(
    SELECT bool_or(passes) AND NOT bool_and(passes) FROM (
        SELECT (value ->> 'passed')::boolean AS passes FROM jsonb_each({details}) WHERE jsonb_typeof(value) = 'object'
    ) AS of_scores
)"""
_ORDER: Final = "sha256(convert_to(concat_ws(':', {seed}::bigint, {key}), 'UTF8'))"
_SINGLE: Final = f"""
    SELECT item_hash, replicate, {_ORDER.format(seed="$8", key="$1::text, item_hash, replicate")} AS drawn,
           count(*) OVER () AS total
    FROM ({_ANSWERED}) AS answered
    WHERE NOT $9 OR {_DISAGREES.format(details="score_details")}
    ORDER BY drawn LIMIT $10
"""
_PAIR: Final = f"""
    SELECT one.item_hash, one.replicate, other.replicate AS other_replicate, one.output, other.output AS other_output,
           {_ORDER.format(seed="$8", key="$1::text, $11::text, one.item_hash, one.place")} AS drawn,
           count(*) OVER () AS total
    FROM ({_ANSWERED}) AS one
    JOIN (
        SELECT item_hash, replicate - $14 AS place, replicate, score_details, output FROM outcomes
        WHERE config_hash = $11 AND target = $12 AND scorer = $13 AND run_id = $4 AND status <> 'failed' AND NOT texts_removed
          AND replicate >= $14 AND replicate < $14 + $15
    ) AS other USING (item_hash, place)
    WHERE (NOT $9 OR {_DISAGREES.format(details="one.score_details")} OR {_DISAGREES.format(details="other.score_details")})
      AND one.output::text <> other.output::text
    ORDER BY drawn LIMIT $10
"""
"""Of two answers that say the same none is better. Encrypted ones always differ: who reads them leaves out those alike."""


class NewQuestion(Payload):
    """What is to be asked, and of which answers."""

    kind: QuestionKind
    words: str
    categories: tuple[str, ...]
    ends: tuple[str, ...] = ()
    """What the first and the last step of a scale mean; none for worst and best."""
    drawn: Drawn
    seed: int
    candidates: tuple[str, ...]
    """Whose answers; of two, exactly two."""
    purpose: str
    count: int
    """How many answers, or pairs, at most."""


class NothingToLabel(StoreError):
    """No answer is like what is asked for."""


class UnknownCandidate(StoreError):
    """A candidate has no trial there."""


class TooManyQuestions(StoreError):
    """The run has as many as are kept."""


class _Key(NamedTuple):
    candidate_id: str
    config_hash: str
    target: str
    replicate: int


class _Item(NamedTuple):
    order: bytes
    item_hash: str
    first: _Key
    other: _Key | None = None


class Labels:
    """Questions about answers of runs, and labels."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ask(self, run_id: str, question: NewQuestion, who: str, through: str) -> int:
        """Draw answers for a question; returns its id. Raises NothingToLabel, UnknownCandidate and TooManyQuestions."""
        async with self._database.transaction() as connection:
            await lock_run(connection, run_id)
            known = await connection.fetchval("SELECT count(*) FROM label_questions WHERE run_id = $1", run_id)
            if known >= MOST_OF_A_RUN:
                raise TooManyQuestions(f"{run_id} has {MOST_OF_A_RUN} questions already; remove some")
            total, items = await _drawn(connection, run_id, question)
            if not items:
                raise NothingToLabel(_nothing(run_id, question))
            question_id: int = await connection.fetchval(
                "INSERT INTO label_questions (run_id, kind, words, categories, drawn, seed, candidates, purpose, drawn_from,"
                " who, through, ends) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING question_id",
                run_id,
                question.kind,
                contents_of(connection).text(question.words),
                [storable_text(one) for one in question.categories],
                question.drawn,
                question.seed,
                list(question.candidates),
                question.purpose,
                total,
                storable_text(who),
                through,
                [storable_text(one) for one in question.ends] or None,
            )
            await connection.copy_records_to_table(
                "label_items",
                records=[_record(question_id, position, item) for position, item in enumerate(items)],
                columns=[
                    *("question_id", "position", "item_hash", "candidate_id", "config_hash", "target", "replicate"),
                    *("other_candidate_id", "other_config_hash", "other_target", "other_replicate"),
                ],
            )
            return question_id

    async def say(self, question_id: int, position: int, who: str, through: str, label: str) -> bool:
        """Keep what somebody says of an answer, in place of what he said before; False where the queue has no such answer."""
        async with self._database.transaction() as connection:
            kept = await connection.fetchval(
                "INSERT INTO labels (question_id, position, who, through, label)"
                " SELECT question_id, position, $3, $4, $5 FROM label_items WHERE question_id = $1 AND position = $2"
                " ON CONFLICT (question_id, position, who) DO UPDATE SET label = excluded.label, through = excluded.through,"
                " changed_at = CASE WHEN labels.label = excluded.label THEN labels.changed_at ELSE now() END RETURNING true",
                question_id,
                position,
                storable_text(who),
                through,
                label,
            )
            return bool(kept)

    async def take_back(self, question_id: int, position: int, who: str) -> bool:
        """Forget what somebody said of an answer; whether he had said anything."""
        async with self._database.transaction() as connection:
            return bool(
                await connection.fetchval(
                    "DELETE FROM labels WHERE question_id = $1 AND position = $2 AND who = $3 RETURNING true",
                    question_id,
                    position,
                    storable_text(who),
                )
            )

    async def remove(self, run_id: str, question_id: int) -> bool:
        """Remove a question with all that was said; whether there was one."""
        async with self._database.transaction() as connection:
            return bool(
                await connection.fetchval(
                    "DELETE FROM label_questions WHERE run_id = $1 AND question_id = $2 RETURNING true", run_id, question_id
                )
            )


async def _drawn(connection: Connection, run_id: str, question: NewQuestion) -> tuple[int, list[_Item]]:
    """How many there are to draw from, and those that were drawn, in the order in which they are labelled."""
    trials = [await _trial(connection, run_id, one, question.purpose) for one in question.candidates]
    if question.kind == "better_of_two":
        return await _pairs(connection, question, *trials)
    total, items = 0, list[_Item]()
    for trial in trials:
        rows = await connection.fetch(_SINGLE, *_asked(trial), question.seed, *_wanted(question))
        total += rows[0]["total"] if rows else 0
        items += [_Item(row["drawn"], row["item_hash"], _key(trial, row["replicate"])) for row in rows]
    return total, sorted(items)[: question.count]


async def _pairs(
    connection: Connection, question: NewQuestion, one: MeasuredTrial, other: MeasuredTrial
) -> tuple[int, list[_Item]]:
    """Pairs of answers to the same sample that say something else; which one is shown first is drawn as well."""
    second = other.config_hash, other.target, other.scorer, other.first_replicate, other.replicates
    disagree, count = _wanted(question)
    hidden = contents_of(connection).encrypts
    wanted = (*_asked(one), question.seed, disagree, None if hidden else count, *second)
    total, items = 0, list[_Item]()
    async for row in connection.cursor(_PAIR, *wanted):
        if hidden and from_json(row["output"]) == from_json(row["other_output"]):
            continue
        total = total + 1 if hidden else row["total"]
        if len(items) == count:
            continue
        keys = _key(one, row["replicate"]), _key(other, row["other_replicate"])
        first, then = keys if row["drawn"][-1] % 2 == 0 else keys[::-1]
        items.append(_Item(row["drawn"], row["item_hash"], first, then))
    return total, items


async def _trial(connection: Connection, run_id: str, candidate_id: str, purpose: str) -> MeasuredTrial:
    found = await measured_trial(connection, run_id, candidate_id, purpose)
    if found is None:
        what = "a confirmation" if purpose == CONFIRMATION else "a trial"
        raise UnknownCandidate(f"candidates: {run_id} has no candidate {candidate_id[:200]!r} with {what}")
    return found


def _asked(trial: MeasuredTrial) -> Sequence[Any]:
    return trial.config_hash, trial.target, trial.scorer, trial.run_id, trial.first_replicate, trial.replicates, trial.split


def _wanted(question: NewQuestion) -> tuple[bool, int]:
    return question.drawn == "disagreement", question.count


def _key(trial: MeasuredTrial, replicate: int) -> _Key:
    return _Key(trial.candidate_id, trial.config_hash, trial.target, replicate)


def _record(question_id: int, position: int, item: _Item) -> tuple[Any, ...]:
    return question_id, position, item.item_hash, *item.first, *(item.other or (None, None, None, None))


def _nothing(run_id: str, question: NewQuestion) -> str:
    if question.drawn == "disagreement":
        return f"drawn: of no such answer of {run_id} do some scores pass and others not; draw at random"
    if question.kind == "better_of_two":
        return f"candidates: {run_id} has no two answers of them that say something else and are still there; name others"
    return f"candidates: {run_id} has no such answer whose text is still there; name others"
