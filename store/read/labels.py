"""Questions about answers, the answers that were drawn for them, and what people said, as clients read them."""

# ruff: noqa: S608 (only constants are put into statements; every value is a parameter)

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

import asyncpg

from ratchet._frozen import Payload
from store.connection import Connection, Database
from store.encoding import from_json, storable_text

QuestionKind = Literal["right_or_wrong", "scale", "categories", "better_of_two"]
Drawn = Literal["random", "disagreement"]

CATEGORIES: Final[dict[str, tuple[str, ...]]] = {
    "right_or_wrong": ("right", "wrong"),
    "better_of_two": ("first", "second", "equal"),
}
"""Of kinds that need none of their own."""
QUESTION: Final = (
    "q.question_id, q.run_id AS optimization_id, q.kind, q.words, q.categories, q.drawn, q.seed, q.candidates, q.purpose,"
    " q.drawn_from, q.who, q.through, q.at,"
    " CASE q.kind WHEN 'scale' THEN coalesce(q.ends, ARRAY['worst', 'best']) ELSE '{}' END AS ends"
)


class LabelQuestion(Payload):
    """What people are asked about answers of a run."""

    question_id: int
    optimization_id: str
    kind: QuestionKind
    words: str
    categories: tuple[str, ...]
    """What can be said; of a scale its steps, the lowest first."""
    ends: tuple[str, ...]
    """What the lowest and the highest step of a scale mean; of other kinds nothing."""
    drawn: Drawn
    """Answers were drawn at random, or from those alone of which some scores passed and others did not."""
    seed: int
    candidates: tuple[str, ...]
    purpose: str
    """`candidate`: answers of the search; `confirmation`: of the confirmation."""
    drawn_from: int
    """How many answers, or pairs, there were to draw from."""
    who: str
    through: str
    at: datetime


class Labeller(Payload):
    """How much somebody has labelled."""

    who: str
    labels: int


class QuestionStanding(LabelQuestion):
    """A question with how far it is."""

    items: int
    people: tuple[Labeller, ...]


class ShownAnswer(Payload):
    """An answer as it is shown to who labels it: without the candidate, and without what scorers made of it."""

    output: Any
    is_removed: bool
    """Whether a policy has removed its text, or the answer."""


class LabelItem(Payload):
    """A sample with the answer to label, or with two of which one may be better."""

    position: int
    item_id: str
    input: Any
    expected: Any
    tags: tuple[str, ...]
    answers: tuple[ShownAnswer, ...]
    label: str | None
    """What the caller said of it."""


class GivenLabel(Payload):
    """What somebody said of an answer."""

    who: str
    through: str
    label: str
    at: datetime
    changed_at: datetime | None


class AnswerKey(Payload):
    """Which answer it is: as the store has it, and by the candidate."""

    candidate_id: str
    config_hash: str
    target: str
    item_hash: str
    replicate: int


class LabelledItem(Payload):
    """An answer, or two, with what everybody said."""

    position: int
    item_id: str
    keys: tuple[AnswerKey, ...]
    input: Any
    expected: Any
    outputs: tuple[Any, ...]
    labels: tuple[GivenLabel, ...]


_ITEMS: Final = """
    SELECT i.*, s.item_id, s.input, s.expected, s.tags
    FROM label_items i
    JOIN label_questions q USING (question_id)
    JOIN runs r USING (run_id)
    JOIN samples s ON s.dataset_id = r.dataset_id AND s.item_hash = i.item_hash
    WHERE i.question_id = $1 AND i.position > $2 ORDER BY i.position LIMIT $3
"""
_OUTPUTS: Final = """
    SELECT given.place, a.output, coalesce(a.texts_removed, false) AS texts_removed
    FROM unnest($2::text[], $3::text[], $4::text[], $5::int[]) WITH ORDINALITY
        AS given (config_hash, target, item_hash, replicate, place)
    JOIN answers a ON a.config_hash = given.config_hash AND a.target = given.target AND a.run_id = $1
        AND a.item_hash = given.item_hash AND a.replicate = given.replicate
"""


class LabelReader:
    """Questions, their queues, and labels."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, run_id: str) -> list[QuestionStanding]:
        """The questions about a run, in the order in which they were asked."""
        async with self._database.snapshot() as connection:
            return await _standings(connection, run_id, None)

    async def question(self, run_id: str, question_id: int) -> QuestionStanding | None:
        """One question; None where the run has no such one."""
        async with self._database.snapshot() as connection:
            return next(iter(await _standings(connection, run_id, question_id)), None)

    async def items(self, question: LabelQuestion, who: str, *, after: int = -1, limit: int = 50) -> list[LabelItem]:
        """A part of the queue behind a position, with what somebody said of it."""
        async with self._database.snapshot() as connection:
            rows, outputs = await _queue(connection, question, after, limit)
            mine = await connection.fetch(
                "SELECT position, label FROM labels WHERE question_id = $1 AND who = $2",
                question.question_id,
                storable_text(who),
            )
        said = {row["position"]: row["label"] for row in mine}
        return [
            LabelItem(
                position=row["position"],
                item_id=row["item_id"],
                input=from_json(row["input"]),
                expected=from_json(row["expected"]),
                tags=tuple(row["tags"]),
                answers=tuple(outputs[row["position"]]),
                label=said.get(row["position"]),
            )
            for row in rows
        ]

    async def labelled(self, question: LabelQuestion, *, after: int = -1, limit: int = 1000) -> list[LabelledItem]:
        """A part of the queue behind a position, with what everybody said."""
        async with self._database.snapshot() as connection:
            rows, outputs = await _queue(connection, question, after, limit)
            found = await connection.fetch(
                "SELECT position, who, through, label, at, changed_at FROM labels WHERE question_id = $1"
                " AND position = ANY($2::int[]) ORDER BY position, who",
                question.question_id,
                [row["position"] for row in rows],
            )
        given: defaultdict[int, list[GivenLabel]] = defaultdict(list)
        for one in found:
            given[one["position"]].append(GivenLabel(**{name: one[name] for name in GivenLabel.model_fields}))
        return [
            LabelledItem(
                position=row["position"],
                item_id=row["item_id"],
                keys=tuple(_keys(row)),
                input=from_json(row["input"]),
                expected=from_json(row["expected"]),
                outputs=tuple(shown.output for shown in outputs[row["position"]]),
                labels=tuple(given[row["position"]]),
            )
            for row in rows
        ]

    async def said(self, question_id: int) -> list[tuple[int, str, str]]:
        """Position, who and label of everything that was said, in this order."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT position, who, label FROM labels WHERE question_id = $1 ORDER BY position, who", question_id
            )
            return [(row["position"], row["who"], row["label"]) for row in rows]


async def _standings(connection: Connection, run_id: str, question_id: int | None) -> list[QuestionStanding]:
    rows = await connection.fetch(
        f"SELECT {QUESTION}, (SELECT count(*) FROM label_items i WHERE i.question_id = q.question_id) AS items"
        " FROM label_questions q WHERE q.run_id = $1 AND ($2::bigint IS NULL OR q.question_id = $2) ORDER BY q.question_id",
        run_id,
        question_id,
    )
    counted = await connection.fetch(
        "SELECT question_id, who, count(*) AS labels FROM labels WHERE question_id = ANY($1::bigint[])"
        " GROUP BY question_id, who ORDER BY who",
        [row["question_id"] for row in rows],
    )
    people: defaultdict[int, list[Labeller]] = defaultdict(list)
    for one in counted:
        people[one["question_id"]].append(Labeller(who=one["who"], labels=one["labels"]))
    return [QuestionStanding(**row, people=tuple(people[row["question_id"]])) for row in rows]


async def _queue(
    connection: Connection, question: LabelQuestion, after: int, limit: int
) -> tuple[Sequence[asyncpg.Record], dict[int, list[ShownAnswer]]]:
    """Samples of the queue, and the answers to each."""
    rows = await connection.fetch(_ITEMS, question.question_id, after, limit)
    keys = [(row["position"], key) for row in rows for key in _keys(row)]
    found = await connection.fetch(
        _OUTPUTS,
        question.optimization_id,
        [key.config_hash for _, key in keys],
        [key.target for _, key in keys],
        [key.item_hash for _, key in keys],
        [key.replicate for _, key in keys],
    )
    known = {row["place"]: ShownAnswer(output=from_json(row["output"]), is_removed=row["texts_removed"]) for row in found}
    shown: dict[int, list[ShownAnswer]] = {row["position"]: [] for row in rows}
    for place, (position, _) in enumerate(keys, 1):
        shown[position].append(known.get(place) or ShownAnswer(output=None, is_removed=True))
    return rows, shown


def _keys(row: asyncpg.Record) -> list[AnswerKey]:
    names = ("candidate_id", "config_hash", "target", "replicate")
    first = AnswerKey(item_hash=row["item_hash"], **{name: row[name] for name in names})
    if row["other_candidate_id"] is None:
        return [first]
    return [first, AnswerKey(item_hash=row["item_hash"], **{name: row[f"other_{name}"] for name in names})]
