"""A trial that races: measured block by block, looked at in between, and over when more samples would decide nothing else."""

from __future__ import annotations

from typing import Protocol

from temporalio import workflow

from workflows.contracts import Evaluating
from workflows.model.activities.judge import RaceLookInput
from workflows.model.run.decisions import Reference
from workflows.model.spec.judgement import RaceDecision
from workflows.model.trial import Race, ShardResult, TrialInput
from workflows.policies import CONCLUDE
from workflows.trials.endings import GoesOn


class InParts(Protocol):
    """An evaluation that can answer a part of a trial."""

    experiment_id: None

    async def answer(self, first: int, last: int) -> list[ShardResult]:
        """Get every answer that is missing of a range of the trial's pairs."""
        ...


class InBlocks:
    """Evaluates one trial until a look at it says that its outcome is decided."""

    experiment_id = None

    def __init__(self, trial: TrialInput, race: Race, evaluation: InParts) -> None:
        self._trial = trial
        self._race = race
        self._evaluation = evaluation
        self._resumed_at = trial.resumed.next_pair if trial.resumed else 0
        self.looks: list[RaceDecision] = list(trial.resumed.looks) if trial.resumed else []

    async def run(self) -> list[ShardResult]:
        """Block after block, up to the one after which the race is over."""
        results: list[ShardResult] = []
        for until in self._ends():
            first = max(until - self._race.block, 0) * self._trial.replicates
            last = until * self._trial.replicates
            if last <= self._resumed_at:
                continue
            try:
                results += await self._evaluation.answer(max(first, self._resumed_at), last)
            except GoesOn as further:
                raise GoesOn(further.resumed.model_copy(update={"looks": tuple(self.looks)})) from None
            if until == self._trial.samples or any(result.exhausted for result in results):
                break
            self.looks.append(await self._look(until))
            if not self.looks[-1].go_on:
                break
        return results

    def _ends(self) -> list[int]:
        """How many samples are measured after each block."""
        samples, block = self._trial.samples, self._race.block
        return [*range(block, samples, block), samples]

    async def _look(self, until: int) -> RaceDecision:
        trial = self._trial
        candidate = Reference(
            candidate_id=trial.candidate.candidate_id,
            config_hash=trial.candidate.config_hash,
            first_replicate=trial.candidate.first_replicate,
            replicates=trial.replicates,
        )
        return await workflow.execute_activity_method(
            Evaluating.decide_race,
            RaceLookInput(
                run_id=trial.run_id, split=trial.split, candidate=candidate, race=self._race, until=until, of=trial.samples
            ),
            task_queue=trial.evaluation_task_queue,
            summary=f"{trial.candidate.candidate_id}: look after {until} of {trial.samples} samples",
            **CONCLUDE,
        )
