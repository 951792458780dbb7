"""Judgement over stored outcomes: what comparing trials finds, the verdict on a decision, and whether a trial goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from store.write.repositories import Store
from workflows.model.activities.computation import StoredTrial
from workflows.model.activities.judge import JudgeInput, Judgements, RaceLookInput
from workflows.model.measured_parts import MeasuredPart
from workflows.model.run.decisions import Reference
from workflows.model.spec.judgement import Evidence, RaceDecision
from workflows.model.suite import EvaluationSuite
from workflows.rules.decisions.verdicts import judge
from workflows.rules.scoring.tally import Tally, asked_for


class Judging:
    """Compares trials of one run on the same samples."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def judge(self, asked: JudgeInput) -> Judgements:
        """The verdicts on candidates against one reference, decided together."""
        suite = await self._store.suites.load(asked.run_id, asked.split)
        found = [
            (await self.evidence(suite, candidate, await self._tallied(suite, candidate), [asked.reference], asked.seed))[0]
            for candidate in asked.candidates
        ]
        alike = await self._alike(suite, asked)
        if asked.by_cross_fitting or alike:
            found = [await self._cross_fitted(suite, asked, found[0])]
        return Judgements(judged=tuple(judge(found, suite.judgement)), alike=alike)

    async def _cross_fitted(self, suite: EvaluationSuite, asked: JudgeInput, evidence: Evidence) -> Evidence:
        """From what the whole search has measured on these samples."""
        history = await self._store.search_history.trials(asked.run_id)
        trials = [trial for trial in history if trial.status == "completed" and trial.split is suite.split]
        baseline = await self._tallied(suite, asked.before[0] if asked.before else asked.reference)
        return await asyncio.to_thread(_cross_fitted, evidence, trials, baseline, asked.seed)

    async def _alike(self, suite: EvaluationSuite, asked: JudgeInput) -> bool:
        """Whether all trials answered just as they did before."""
        for before, afresh in zip(asked.before, (asked.reference, *asked.candidates), strict=False):
            if not await asyncio.to_thread(_alike, await self._tallied(suite, before), await self._tallied(suite, afresh)):
                return False
        return bool(asked.before)

    async def evidence(
        self,
        suite: EvaluationSuite,
        candidate: Reference,
        answers: Tally,
        references: Sequence[Reference],
        seed: int,
        samples: int | None = None,
    ) -> list[Evidence]:
        """What comparing a candidate's answers with each reference's finds; `samples` where they are to the first ones only."""
        if not references:
            return []
        named = suite.judgement.must_pass
        must_pass = await self._store.suites.must_pass(suite.run_id, suite.split, named) if named else {}
        compare = partial(_compared, candidate=candidate, answers=answers, must_pass=must_pass, seed=seed)
        within = suite if samples is None else suite.of_the_first(samples)
        return [await asyncio.to_thread(compare, reference, await self._tallied(within, reference)) for reference in references]

    async def decide_race(self, asked: RaceLookInput) -> RaceDecision:
        """Whether a trial goes on after so many samples."""
        suite = (await self._store.suites.load(asked.run_id, asked.split)).of_the_first(asked.until)
        reference, candidate = [await self._tallied(suite, trial) for trial in (asked.race.reference, asked.candidate)]
        return await asyncio.to_thread(_looked_at, asked, reference, candidate)

    async def _tallied(self, suite: EvaluationSuite, trial: Reference) -> Tally:
        tally = Tally(suite, measures=asked_for(suite.judgement))
        await self._store.measured_samples.tally(tally, trial.config_hash, trial.first_replicate, trial.replicates)
        return tally


# Statistics take longer to import than all else a worker needs; inside of functions that holds up neither its start nor its
# event loop.


def _compared(reference: Reference, reference_answers: Tally, **given: Any) -> Evidence:
    from workflows.rules.statistics.trial_comparison import tallies_compared

    return tallies_compared(reference, reference_answers, **given)


def _alike(before: Tally, afresh: Tally) -> bool:
    from workflows.rules.statistics.sameness import answered_alike
    from workflows.rules.statistics.trial_answers import answers_in

    return answered_alike(answers_in(before), answers_in(afresh))


def _cross_fitted(evidence: Evidence, trials: Sequence[StoredTrial], answers: Tally, seed: int) -> Evidence:
    from workflows.rules.statistics.cross_fit import search_cross_fitted
    from workflows.rules.statistics.trial_answers import answers_in

    suite, [baseline, *candidates] = answers.suite, [trial for trial in trials if trial.part is None]
    parts = [
        MeasuredPart(config_hash=trial.config_hash, round=trial.round, first=trial.part.first, count=trial.part.count)
        for trial in trials
        if trial.part is not None
    ]
    return search_cross_fitted(
        evidence,
        baseline,
        candidates,
        parts=[*suite.parts_before, *parts],
        spec=suite.judgement,
        direction=suite.objective.direction,
        weights=answers_in(answers).weights,
        clusters=suite.clusters,
        seed=seed,
    )


def _looked_at(asked: RaceLookInput, reference: Tally, candidate: Tally) -> RaceDecision:
    from workflows.rules.statistics.trial_comparison import tallies_looked_at

    return tallies_looked_at(asked, reference, candidate)
