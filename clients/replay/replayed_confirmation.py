"""The confirmation of a recorded run's winner, gone through again: by its trials, or by the answers of the search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from clients.replay.differences import NOTHING, ReplayDifference
from clients.replay.recorded_answers import NO_MEANS, clusters_of
from clients.replay.trial_source import Asked, Recomputing, candidate_of
from clients.reports.facts import Iteration, RunFacts
from workflows.model.measured_parts import MeasuredPart
from workflows.model.run.run_result import Confirmation, How
from workflows.model.spec.judgement import Judged
from workflows.model.trial import Purpose, TrialResult
from workflows.rules.decisions.verdicts import judge
from workflows.rules.statistics.cross_fit import search_cross_fitted
from workflows.run.end.ending import confirmation_references, confirmed, confirmed_by_the_search, cut_off, to_confirm, uncovered
from workflows.run.references import references_of
from workflows.run.state import RunState


@dataclass(frozen=True, slots=True)
class ReplayedConfirmation:
    """What a run does once its search is over, by what is recorded."""

    facts: RunFacts
    state: RunState
    trials: Recomputing
    measured: Callable[[Iteration, Asked], Awaitable[TrialResult]]
    """Recompute a trial, and keep it in `again`."""
    again: Mapping[str, Iteration]
    """The trials that were recomputed, by their id."""
    findings: list[ReplayDifference]

    async def confirmation(self, told: Confirmation | None, past: Sequence[Iteration]) -> Confirmation | None:
        """What confirms the winner again, or speaks against it. `told` is what is recorded, `past` its trials."""
        state = self.state
        pair = to_confirm(state)
        if not pair:
            return None
        if state.prepared and not state.prepared.test_samples and not state.needs.confirmation_calls:
            return await self._confirmed_by_the_search()
        if refused := uncovered(state, pair):
            return Confirmation(refused=refused)
        if told is not None and told.refused is not None and not past:
            return told  # who has read the samples before, the run itself does not know
        measured = {one.candidate_id: one for one in past}
        missing = [one.candidate_id for one in pair if one.candidate_id not in measured]
        if missing:
            self.findings.append(ReplayDifference("further", NOTHING, f"the confirmation of {', '.join(missing)}"))
            return told
        results = [await self.measured(measured[one.candidate_id], Asked()) for one in pair]
        for result in results:
            state.spending.add_trial(result)
        how: How = "test_split" if state.prepared and state.prepared.test_samples else "fresh_answers"
        judged = None
        if len(pair) == 2 and all(result.status == "completed" for result in results):
            baseline, winner = (self.again[measured[one.candidate_id].trial_id] for one in pair)
            reference = confirmation_references(state, [candidate_of(baseline)])[0]
            judged = await self.trials.judged(baseline, winner, Asked((reference,)))
            if how == "fresh_answers" and await self._alike((baseline, winner)):
                judged, how = await self._cross_fitted(judged), "cross_fitting"
        if confirmed_by_the_search(state, results):
            found = await self._confirmed_by_the_search()
        else:
            scores = [result.objective_score for result in results]
            found = cut_off(results, how) or confirmed(state, scores[0], scores[-1], judged, how)
        seen = {"readers": told.readers, "searched": told.searched} if told is not None else {}
        return found.model_copy(update=seen)

    async def _confirmed_by_the_search(self) -> Confirmation:
        return confirmed(self.state, None, None, await self._cross_fitted(await self._judged_in_search()), "cross_fitting")

    async def _judged_in_search(self) -> Judged:
        """The winner against the baseline, by the answers that it was chosen for."""
        baseline, winner = references_of(self.state)
        found = {one.candidate_id: self.again[one.trial_id] for one in self.facts.iterations if one.trial_id in self.again}
        return await self.trials.judged(found[baseline.candidate_id], found[winner.candidate_id], Asked((baseline,)))

    async def _cross_fitted(self, judged: Judged) -> Judged:
        """The same by what the choice of the winner did not look at."""
        facts, trials = self.facts, [self.again.get(one.trial_id, one) for one in self.facts.iterations]
        baseline, *candidates = [one for one in trials if one.trial_status == "completed"]
        if any(one.sample_means is None for one in (baseline, *candidates)):
            self.trials.tally.cannot(NO_MEANS)
            told = facts.result.confirmation.judged if facts.result and facts.result.confirmation else None
            return told or judged
        [drawn] = [drawn for drawn in facts.splits if drawn.split is facts.search_split]
        explored = [one for one in facts.further if one.purpose is Purpose.EXPLORATION and one.trial_status == "completed"]
        parts = [
            MeasuredPart(config_hash=one.config_hash, round=one.round, first=one.first, count=one.samples)
            for one in explored
            if one.split == facts.search_split
        ]
        evidence = search_cross_fitted(
            judged.evidence,
            baseline,
            candidates,
            parts=[*facts.request.optimizer.parts_before, *parts],
            spec=facts.request.judgement,
            direction=facts.direction,
            weights=drawn.weights,
            clusters=clusters_of(drawn, drawn.samples),
            seed=facts.request.seed,
        )
        return judge([evidence], facts.request.judgement)[0]

    async def _alike(self, again: Sequence[Iteration]) -> bool:
        """Whether fresh answers scored as those of the search did."""
        for afresh in again:
            before = next((one for one in self.facts.iterations if one.candidate_id == afresh.candidate_id), None)
            if before is None or not await self.trials.alike(before, afresh):
                return False
        return True
