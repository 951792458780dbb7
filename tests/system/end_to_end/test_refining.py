"""`refine` that learns from training samples, and must-pass samples that are not there, in whole runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import Engines
from tests.support.run_views import failure_of

WORDS = [f"word{number:02}" for number in range(40)]


def learning_words(**parts: Any) -> dict[str, Any]:
    """A prompt that has to list the words it is asked about; its proposer adds those it is shown to be unknown."""
    return {
        "name": "words",
        "configuration": {"prompt": {"value": "Say what you know.\nKnow word99.", "change": "text"}},
        "target": {"kind": "python", "ref": "plugged:vocabulary"},
        "dataset": {
            "items": [{"id": word, "input": {"word": word}, "expected": word} for word in WORDS],
            "splits": {"train": 0.5, "validation": 0.5},
        },
        "scorers": [{"kind": "exact", "name": "known"}],
        "objective": {"metric": "known"},
        "optimizer": {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:teaching"}},
        "stop": {"max_rounds": 2, "no_improvement": 0},
        "seed": 3,
    } | parts


async def taught(engines: Engines, run_id: str) -> tuple[set[str], set[str], list[str]]:
    """The words that candidates were taught, those of the training samples, and what each trial was for."""
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT t.purpose, o.configuration FROM trials t JOIN overlays o USING (config_hash) WHERE t.run_id = $1"
            " ORDER BY t.started_at",
            run_id,
        )
        items = await connection.fetch("SELECT id FROM suite_items WHERE run_id = $1 AND split = 'train'", run_id)
    texts = " ".join(row["configuration"] for row in rows)
    return {word for word in WORDS if f"Know {word}." in texts}, {row["id"] for row in items}, [row["purpose"] for row in rows]


async def test_a_proposer_may_be_shown_training_samples_only(engines: Engines) -> None:
    optimizer = {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:teaching"}, "examples_from": "train"}
    result = await engines.run(learning_words(optimizer=optimizer))
    words, training, purposes = await taught(engines, result["optimization_id"])
    assert words and words <= training
    assert purposes == [
        "baseline",
        "exploration",
        "candidate",
    ]  # the baseline stays the parent: one look is enough
    assert result["spend"]["samples"] == 3 * 20


async def test_by_default_it_is_shown_what_candidates_are_scored_on_at_no_cost(engines: Engines) -> None:
    result = await engines.run(learning_words())
    words, training, purposes = await taught(engines, result["optimization_id"])
    assert words and not words & training
    assert purposes[:2] == ["baseline", "candidate"] and "exploration" not in purposes


async def test_training_samples_that_are_not_there_are_no_place_to_learn_from(engines: Engines) -> None:
    optimizer = {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:teaching"}, "examples_from": "train"}
    items = {"items": [{"input": {"word": word}, "expected": word} for word in WORDS], "splits": "none"}
    failure = await failure_of(await engines.start(learning_words(optimizer=optimizer, dataset=items)))
    assert failure.type == "InvalidRequest"
    assert "optimizer.examples_from: is train, but there are no training samples" in failure.message


@pytest.mark.parametrize(
    ("must_pass", "message"),
    [
        (
            ["word07", "word70"],
            "judgement.must_pass.samples: the dataset has no sample with the id 'word70'; did you mean 'word",
        ),
        ({"tags": ["vip"]}, "judgement.must_pass.tags: the dataset has no sample tagged 'vip'; correct it, or drop it"),
    ],
)
async def test_must_pass_samples_that_the_dataset_does_not_have_are_refused(
    engines: Engines, must_pass: Any, message: str
) -> None:
    failure = await failure_of(await engines.start(learning_words(judgement={"must_pass": must_pass})))
    assert failure.type == "InvalidRequest"
    assert message in failure.message
