"""Questions about answers: drawn where scores disagree, in encrypted stores, too, and gone with their run."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from ratchet._encryption import EncryptionKeys
from store.connection import Database
from store.read.reader import StoreReader
from store.write.labels import CANDIDATE, CONFIRMATION, Labels, NewQuestion, NothingToLabel, UnknownCandidate
from store.write.repositories import Store
from store.write.runs import delete_run
from tests.support.store_examples import ExampleRun

SPLIT = (0, 3)
"""Samples of which one scorer lets the first candidate's answer pass, and the other does not."""


def question(**parts: Any) -> NewQuestion:
    asked = {"kind": "right_or_wrong", "words": "Is it right?", "categories": ("right", "wrong"), "drawn": "random", "seed": 4}
    return NewQuestion.model_validate(asked | {"candidates": ("one",), "purpose": CANDIDATE, "count": 9} | parts)


async def answered(run: ExampleRun) -> None:
    """Two candidates with five answers each; the second one's failed at one sample."""
    for place, name in enumerate(("one", "two")):
        trial = run.trial(run.candidate(name, index=place))
        await run.store.trials.begin(trial)
        given = []
        for n in range(5):
            per_score = {"exact": {"passed": True, "reason": "secret"}, "judge": {"passed": name == "two" or n not in SPLIT}}
            lost: dict[str, Any] = {"status": "failed", "scores": {}, "per_score": {}, "output": None, "error": "it broke"}
            told = {
                "scores": {"exact": 1.0, "judge": 0.4},
                "per_score": per_score,
                "output": "the same" if n == 4 else f"{name} {n}",
            }
            given.append(run.outcome(n, 0, **(lost | {"error_class": "raised"} if (name, n) == ("two", 1) else told)))
        await run.store.outcomes.commit(run.shard(trial), run.suite, given)
        await run.record(trial, 0.5)


@pytest.mark.parametrize("keys", [None, EncryptionKeys({"old": bytes(32)})])
async def test_what_is_drawn_is_what_was_asked_for(database_url: str, keys: EncryptionKeys | None) -> None:
    database = await Database.open(database_url, keys=keys, most_connections=2)
    run = await ExampleRun(Store(database), database).open(replicates=1)
    await answered(run)
    labels, reader = Labels(database), StoreReader(database).labels

    made = await labels.ask(run.run_id, question(drawn="disagreement"), "ann", "a test")
    asked = await reader.question(run.run_id, made)
    assert asked is not None
    assert (asked.words, asked.items, asked.drawn_from) == ("Is it right?", 2, 2)
    outputs = {one.answers[0].output for one in await reader.items(asked, "ann")}
    assert outputs == {f"one {n}" for n in SPLIT}

    pairs = await labels.ask(run.run_id, question(kind="better_of_two", candidates=("one", "two")), "ann", "a test")
    two = await reader.question(run.run_id, pairs)
    assert two is not None
    shown = [{answer.output for answer in one.answers} for one in await reader.items(two, "ann")]
    # What failed has nothing to look at, and of two that say the same none is better.
    assert sorted(map(sorted, shown)) == [[f"one {n}", f"two {n}"] for n in (0, 2, 3)] and two.drawn_from == 3

    assert await labels.say(made, 0, "ann", "a test", "right") and await labels.say(made, 0, "ann", "a test", "wrong")
    assert not await labels.say(made, 2, "ann", "a test", "right")
    assert await reader.said(made) == [(0, "ann", "wrong")]
    with pytest.raises(UnknownCandidate):
        await labels.ask(run.run_id, question(purpose=CONFIRMATION), "ann", "a test")
    with pytest.raises(NothingToLabel):
        await labels.ask(run.run_id, question(drawn="disagreement", candidates=("two",)), "ann", "a test")

    plain = await asyncpg.connect(database_url)
    stored = await plain.fetchval("SELECT words FROM label_questions ORDER BY question_id LIMIT 1")
    assert (stored == "Is it right?") == (keys is None)
    async with database.transaction() as connection:
        await delete_run(connection, run.run_id)
    assert [await plain.fetchval(f"SELECT count(*) FROM {name}") for name in ("label_questions", "label_items", "labels")] == [
        *(0, 0, 0)
    ]
    await plain.close()
    await database.close()
