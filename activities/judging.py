"""Judgement over stored outcomes: what comparing trials finds, the verdict on a decision, and whether a trial goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from workflows.model.decisions import Reference
from workflows.model.judgement import Evidence, MustPass, RaceDecision, Racing
from workflows.model.judging import JudgeInput, Judgements, LookInput
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


@dataclass(frozen=True, slots=True)
class Measured:
    """A trial's answers, or those to its first samples."""

    trial: Reference
    answers: Sequence[MeasuredSample]

    def up_to(self, samples: int) -> Measured:
        """Without what later samples were answered."""
        return Measured(self.trial, [answer for answer in self.answers if answer.position < samples])


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
        compared = suite if samples is None else suite.model_copy(update={"samples": samples})
        named = suite.judgement.must_pass
        must_pass = await self._store.must_pass(suite.run_id, suite.split, named) if named else {}
        within = {place: name for place, name in must_pass.items() if place < compared.samples}
        return [
            await asyncio.to_thread(
                _compared,
                compared,
                (await self._measured(suite, reference)).up_to(compared.samples),
                candidate.up_to(compared.samples),
                within,
                derive_seed(seed, "evidence", suite.split.value, reference.candidate_id, candidate.trial.candidate_id),
            )
            for reference in references
        ]

    async def look(self, asked: LookInput) -> RaceDecision:
        """Whether a trial goes on after so many samples."""
        suite = await self._store.suite(asked.run_id, asked.split)
        reference, candidate = [
            (await self._measured(suite, trial)).up_to(asked.until) for trial in (asked.race.reference, asked.candidate)
        ]
        return await asyncio.to_thread(_raced, suite, asked, reference, candidate)

    async def _measured(self, suite: EvaluationSuite, trial: Reference) -> Measured:
        answers = await self._store.measured(
            suite.run_id, suite.split, trial.config_hash, suite.evaluator, trial.first_replicate, trial.replicates
        )
        return Measured(trial, answers)


# Statistics take longer to import than all else a worker needs; inside of functions that holds up neither its start nor its
# event loop.


def _compared(
    suite: EvaluationSuite, reference: Measured, candidate: Measured, must_pass: Mapping[int, str], seed: int
) -> Evidence:
    from workflows.rules.judgement import answers_of, evidence_of

    return evidence_of(
        answers_of(reference.answers, suite),
        answers_of(candidate.answers, suite),
        spec=suite.judgement,
        direction=suite.objective.direction,
        reference_id=reference.trial.candidate_id,
        must_pass=must_pass,
        seed=seed,
    )


def _raced(suite: EvaluationSuite, asked: LookInput, reference: Measured, candidate: Measured) -> RaceDecision:
    from workflows.rules.judgement import answers_of, race, strict_counts

    so_far = suite.model_copy(update={"samples": asked.until})
    one, other = answers_of(reference.answers, so_far), answers_of(candidate.answers, so_far)
    racing = (suite.judgement.racing or Racing()).model_copy(update={"block": asked.race.block})
    broken = strict_counts(one.passes, other.passes).broken if one.passes and other.passes else 0
    return race(
        one.means,
        other.means,
        planned=asked.of,
        spec=suite.judgement.model_copy(update={"racing": racing}),
        weights=one.weights,
        direction=suite.objective.direction,
        reference_id=reference.trial.candidate_id,
        candidates=asked.race.candidates,
        strict_broken=broken,
    )
