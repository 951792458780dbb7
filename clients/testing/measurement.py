"""Trials of a simulated run: aggregation, evidence and budgets are those of real runs, the answers a synthetic target's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clients.testing.simulated_outcomes import SimulatedOutcomes
from ratchet import Record
from ratchet._formats.canonical import derive_seed
from workflows.model.activities.computation import StoredTrial
from workflows.model.run.amounts import Resource
from workflows.model.run.candidates import Candidate
from workflows.model.run.decisions import Reference
from workflows.model.spec.judgement import Evidence
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Purpose, Split, TrialResult
from workflows.rules.proposals.parts import places
from workflows.rules.scoring.objective_score import ScoringFailed, TrialStatistics, objective_score
from workflows.rules.scoring.tally import sample_means, statistics
from workflows.rules.statistics import answers_of, evidence_of
from workflows.run.references import references_of
from workflows.run.state import RunState


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is measured of one candidate."""

    candidate: Candidate
    purpose: Purpose
    split: Split
    places: range
    replicates: range

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [(place, replicate) for place in self.places for replicate in self.replicates]


class Measuring:
    """Runs the trials of a run, one after the other, and remembers what a store would."""

    def __init__(self, state: RunState, outcomes: SimulatedOutcomes) -> None:
        self._state = state
        self._outcomes = outcomes
        self._stored: list[StoredTrial] = []

    async def run_all(self, candidates: Sequence[Candidate], purpose: Purpose) -> list[TrialResult]:
        """In the order of the proposals, compared with what stood when the round began."""
        references = references_of(self._state) if purpose is Purpose.CANDIDATE else ()
        budget, counted = self._state.limits.budget.samples, self._state.spending.counted.samples
        results: list[TrialResult] = []
        for candidate in candidates:
            left = budget - counted - sum(result.paid_samples for result in results) if budget else None
            asked = self._asked(candidate, purpose)
            results.append(await self._run(asked, references if asked.purpose is Purpose.CANDIDATE else (), left))
        return results

    @property
    def stored(self) -> list[StoredTrial]:
        """Every trial, as computations read them: in the order of the proposals."""
        return [*self._stored]

    def records(
        self, config_hash: str, split: Split, limit: int, *, worst_first: bool, places: range | None = None
    ) -> list[Record]:
        sign = 1.0 if self._state.request.objective.direction == "maximize" else -1.0
        return self._outcomes.records(config_hash, split, limit, worst_first=worst_first, sign=sign, places=places)

    def _asked(self, candidate: Candidate, purpose: Purpose) -> _Asked:
        state = self._state
        assert state.prepared
        if candidate.part is not None:
            return _Asked(candidate, Purpose.EXPLORATION, state.split_of(candidate.part), places(candidate.part), range(1))
        design, first = state.design, candidate.first_replicate
        answers = design.baseline_replicates if purpose is Purpose.BASELINE else design.replicates
        replicates = range(first, first + answers)
        return _Asked(candidate, purpose, state.prepared.search_split, range(design.samples), replicates)

    async def _run(self, asked: _Asked, references: Sequence[Reference], left: int | None) -> TrialResult:
        candidate, pairs = asked.candidate, asked.pairs
        measured, bought = await self._outcomes.answer(candidate.configuration, candidate.config_hash, asked.split, pairs, left)
        suite = self._suite(asked.split, self._extent(asked))
        facts = statistics(measured, suite, len(pairs))
        exhausted: Resource | None = "samples" if len(measured) < len(pairs) else None
        complete = facts.coverage >= self._state.request.execution.min_coverage
        score, broken = _score(suite, facts) if complete else (None, None)
        result = TrialResult(
            optimization_id=self._state.run_id,
            candidate_id=candidate.candidate_id,
            mask_id=candidate.config_hash,
            experiment_id=f"{self._state.run_id}/{asked.purpose.value}/{candidate.candidate_id}",
            status="cancelled" if not complete else "failed" if broken else "completed",
            objective_score=score,
            summary=facts.summary,
            coverage=facts.coverage,
            stopped_early="the samples budget is exhausted" if exhausted else None,
            error=broken,
            failure="scoring" if broken else None,
            paid_samples=len(bought),
            paid_tokens=sum(answer.tokens for answer in bought),
            paid_cost=math.fsum(answer.cost for answer in bought),
            evidence=tuple(self._evidence(suite, candidate, measured, references)) if score is not None else (),
            exhausted=exhausted,
        )
        self._stored.append(_stored(asked, result, tuple(sample_means(measured, suite))))
        return result

    def _extent(self, asked: _Asked) -> int:
        """How many samples the split has that trials are measured on."""
        part, extents = asked.candidate.part, self._state.extents
        return extents.train if part is not None and part.split == "train" else extents.search

    def _evidence(
        self, suite: EvaluationSuite, candidate: Candidate, measured: Sequence[MeasuredSample], references: Sequence[Reference]
    ) -> list[Evidence]:
        request = self._state.request
        found = []
        for reference in references:
            replicates = range(reference.first_replicate, reference.first_replicate + reference.replicates)
            known = self._outcomes.of(reference.config_hash, suite.split, replicates, range(suite.samples))
            ids = (suite.split.value, reference.candidate_id, candidate.candidate_id)
            found.append(
                evidence_of(
                    answers_of(known, suite),
                    answers_of(measured, suite),
                    spec=request.judgement,
                    direction=request.objective.direction,
                    reference_id=reference.candidate_id,
                    seed=derive_seed(request.seed, "evidence", *ids),
                )
            )
        return found

    def _suite(self, split: Split, samples: int) -> EvaluationSuite:
        request, prepared = self._state.request, self._state.prepared
        assert prepared
        return EvaluationSuite.model_construct(
            run_id=self._state.run_id,
            split=split,
            suite_id=prepared.evaluation_suite_id,
            dataset_id=prepared.dataset_id,
            samples=samples,
            target_fingerprint="simulated",
            scorer_fingerprint="simulated",
            target=request.target,
            scorers=request.scorers,
            objective=request.objective,
            metric=request.metric,
            judgement=request.judgement,
        )


def _score(suite: EvaluationSuite, facts: TrialStatistics) -> tuple[float | None, str | None]:
    try:
        return objective_score(suite.objective, suite.metric, facts), None
    except ScoringFailed as error:
        return None, str(error)


def _stored(asked: _Asked, result: TrialResult, means: tuple[float | None, ...]) -> StoredTrial:
    candidate = asked.candidate
    return StoredTrial(
        candidate_id=candidate.candidate_id,
        config_hash=candidate.config_hash,
        configuration=candidate.configuration,
        parent_candidate_ids=candidate.parent_candidate_ids,
        round=candidate.round,
        purpose=asked.purpose,
        split=asked.split,
        status=result.status,
        score=result.objective_score,
        sample_means=means,
        part=candidate.part,
        extra=candidate.extra,
    )
