"""What the messages of an answer follow from: configuration, sample, target, and what was kept of the steps before; and those
to its judges: sample and answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from store.connection import Database
from store.encoding import from_json
from store.read.samples.sample_pairs import answers_of, inputs_of, measured_trial
from store.write.suites import load_suite
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import Purpose, Split


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer, as far as it is kept."""

    status: str
    value: Any
    trace: Any
    texts_removed: bool


@dataclass(frozen=True, slots=True)
class SentMaterial:
    """Of one sample in one trial."""

    suite: EvaluationSuite
    config_hash: str
    configuration: Mapping[str, Any]
    item_id: str
    given: Any
    expected: Any
    answers: Mapping[int, KeptAnswer]
    """By replicate."""


class SentMaterialReader:
    """What the messages of answers follow from."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, run_id: str, candidate_id: str, item_id: str, purpose: Purpose | None = None) -> SentMaterial | None:
        """Of a sample by its id; None when there is no such trial, or no such sample in its split."""
        async with self._database.snapshot() as connection:
            trial = await measured_trial(connection, run_id, candidate_id, purpose)
            if trial is None:
                return None
            item_hash = await connection.fetchval(
                "SELECT drawn.item_hash FROM suites suite JOIN suite_samples drawn USING (run_id, split)"
                " JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash"
                " WHERE suite.run_id = $1 AND suite.split = $2 AND s.item_id = $3 ORDER BY drawn.position LIMIT 1",
                run_id,
                trial.split,
                item_id,
            )
            if item_hash is None:
                return None
            sample = (await inputs_of(connection, run_id, trial.split, [item_hash]))[item_hash]
            answers = (await answers_of(connection, trial, [item_hash], traces=True)).get(item_hash, [])
            stored = await connection.fetchval("SELECT configuration FROM overlays WHERE config_hash = $1", trial.config_hash)
            return SentMaterial(
                suite=await load_suite(connection, run_id, Split(trial.split)),
                config_hash=trial.config_hash,
                configuration=from_json(stored),
                item_id=item_id,
                given=sample["input"],
                expected=sample["expected"],
                answers={answer["replicate"]: _kept(answer) for answer in answers},
            )


def _kept(answer: Mapping[str, Any]) -> KeptAnswer:
    return KeptAnswer(answer["status"], answer["output"], answer["trace"], bool(answer["texts_removed"]))
