"""Judgement over stored outcomes: what a trial's comparison with its references finds, and the verdict on a decision."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from workflows.model.decisions import Reference
from workflows.model.judgement import Evidence, MustPass
from workflows.model.judging import JudgeInput, Judgements
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Split
from workflows.rules.canonical import derive_seed
from workflows.rules.verdicts import judge


class JudgingStore(Protocol):
    """What judging needs of the store."""

    async def suite(self, run_id: str, split: Split) -> EvaluationSuite: ...
    async def measured(
        self, run_id: str, split: Split, config_hash: str, evaluator: str, first_replicate: int, replicates: int
    ) -> Sequence[MeasuredSample]: ...
    async def must_pass(self, run_id: str, split: Split, named: MustPass) -> Mapping[int, str]: ...


class Judging:
    """Compares trials of one run on the same samples."""

    def __init__(self, store: JudgingStore) -> None:
        self._store = store

    async def judge(self, asked: JudgeInput) -> Judgements:
        """The verdicts on candidates against one reference, decided together."""
        suite = await self._store.suite(asked.run_id, asked.split)
        found = []
        for candidate in asked.candidates:
            answers = await self._answers(suite, candidate, asked.replicates)
            found += await self.evidence(suite, candidate, answers, [asked.reference], asked.replicates, asked.seed)
        return Judgements(judged=tuple(judge(found, suite.judgement)))

    async def evidence(
        self,
        suite: EvaluationSuite,
        candidate: Reference,
        answers: Sequence[MeasuredSample],
        references: Sequence[Reference],
        replicates: int,
        seed: int,
    ) -> list[Evidence]:
        """What comparing a candidate's answers with those of each reference finds."""
        if not references:
            return []
        named = suite.judgement.must_pass
        must_pass = await self._store.must_pass(suite.run_id, suite.split, named) if named else {}
        return [
            await asyncio.to_thread(
                _compared,
                suite,
                (reference, await self._answers(suite, reference, replicates)),
                (candidate, answers),
                must_pass,
                derive_seed(seed, "evidence", suite.split.value, reference.candidate_id, candidate.candidate_id),
            )
            for reference in references
        ]

    async def _answers(self, suite: EvaluationSuite, trial: Reference, replicates: int) -> Sequence[MeasuredSample]:
        return await self._store.measured(
            suite.run_id, suite.split, trial.config_hash, suite.evaluator, trial.first_replicate, replicates
        )


Measured = tuple[Reference, Sequence[MeasuredSample]]


def _compared(
    suite: EvaluationSuite, reference: Measured, candidate: Measured, must_pass: Mapping[int, str], seed: int
) -> Evidence:
    # Statistics take longer to import than all else a worker needs; here it holds up neither its start nor its event loop.
    from workflows.rules.judgement import answers_of, evidence_of

    return evidence_of(
        answers_of(reference[1], suite),
        answers_of(candidate[1], suite),
        spec=suite.judgement,
        direction=suite.objective.direction,
        reference_id=reference[0].candidate_id,
        must_pass=must_pass,
        seed=seed,
    )
