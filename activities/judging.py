"""Judgement over stored outcomes: what comparing trials finds, the verdict on a decision, and whether a trial goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from workflows.model.decisions import Reference
from workflows.model.judgement import Evidence, MustPass, RaceDecision
from workflows.model.judging import JudgeInput, Judgements, LookInput, Measured
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Split
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
        found = [
            (await self.evidence(suite, await self._measured(suite, candidate), [asked.reference], asked.seed))[0]
            for candidate in asked.candidates
        ]
        return Judgements(judged=tuple(judge(found, suite.judgement)))

    async def evidence(
        self,
        suite: EvaluationSuite,
        candidate: Measured,
        references: Sequence[Reference],
        seed: int,
        samples: int | None = None,
    ) -> list[Evidence]:
        """What comparing a candidate with each reference finds; with `samples`, on the first of them only."""
        if not references:
            return []
        named = suite.judgement.must_pass
        must_pass = await self._store.must_pass(suite.run_id, suite.split, named) if named else {}
        compare = partial(_compared, suite, must_pass=must_pass, seed=seed, samples=samples)
        return [await asyncio.to_thread(compare, await self._measured(suite, reference), candidate) for reference in references]

    async def look(self, asked: LookInput) -> RaceDecision:
        """Whether a trial goes on after so many samples."""
        suite = await self._store.suite(asked.run_id, asked.split)
        reference, candidate = [await self._measured(suite, trial) for trial in (asked.race.reference, asked.candidate)]
        return await asyncio.to_thread(_looked_at, suite, asked, reference, candidate)

    async def _measured(self, suite: EvaluationSuite, trial: Reference) -> Measured:
        answers = await self._store.measured(
            suite.run_id, suite.split, trial.config_hash, suite.evaluator, trial.first_replicate, trial.replicates
        )
        return Measured(trial, answers)


# Statistics take longer to import than all else a worker needs; inside of functions that holds up neither its start nor its
# event loop.


def _compared(suite: EvaluationSuite, reference: Measured, candidate: Measured, **given: Any) -> Evidence:
    from workflows.rules.judgement.trials import compared

    return compared(suite, reference, candidate, **given)


def _looked_at(suite: EvaluationSuite, asked: LookInput, reference: Measured, candidate: Measured) -> RaceDecision:
    from workflows.rules.judgement.trials import looked_at

    return looked_at(suite, asked, reference, candidate)
