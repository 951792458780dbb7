"""How a run runs its trials: as children, bounded, with results in the order of the proposals."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ApplicationError, ChildWorkflowError, is_cancelled_exception

from workflows.contracts import Bookkeeping, Evaluating
from workflows.error_reason import reason_of
from workflows.fair_shares import share_of
from workflows.model.activities.judge import JudgeInput, Judgements
from workflows.model.run.candidates import Candidate
from workflows.model.run.clock import ClockKey, TimeBudget
from workflows.model.run.rounds import RoundRecord
from workflows.model.trial import Conclusion, Purpose, Split, TrialInput, TrialResult
from workflows.policies import (
    CALLS_PER_SHARD,
    CONCLUDE,
    LOCAL_STORE,
    TRIAL_CANCELLATION,
    TRIAL_PARENT_CLOSE,
    fitting_one_message,
)
from workflows.rules.spec.batch_rules import batch_rules_of
from workflows.run.outbox import RoundOutbox
from workflows.run.references import planning_at_baseline, planning_of, race_of, references_of
from workflows.run.state import RunState
from workflows.trial import TrialWorkflow
from workflows.trials.endings import to_the_end


class TrialRuns:
    """Starts trials and waits for them."""

    def __init__(self, state: RunState, outbox: RoundOutbox, evaluation_task_queue: str) -> None:
        self._state = state
        self._outbox = outbox
        self._evaluation_task_queue = evaluation_task_queue
        self._asked_at: datetime | None = None
        self._timed: dict[str, workflow.ChildWorkflowHandle[TrialWorkflow, TrialResult]] = {}
        """Trials in flight that end when the time budget is over."""

    async def run_all(self, candidates: Sequence[Candidate], purpose: Purpose) -> list[TrialResult]:
        """So many side by side as the limit allows; which one finishes first decides nothing."""
        largest = max((len(candidate.model_dump_json()) for candidate in candidates), default=0)
        side_by_side = max(1, min(self._state.concurrent_trials, fitting_one_message(largest), len(candidates)))
        room = asyncio.Semaphore(side_by_side)
        waiting = self._outbox.waiting

        in_full = sum(1 for candidate in candidates if candidate.part is None)
        race = race_of(self._state, in_full) if purpose is Purpose.CANDIDATE and in_full else None
        planned = {Purpose.NOISE: planning_of, Purpose.BASELINE: planning_at_baseline}.get(purpose)
        planning = planned(self._state) if planned else None

        async def bounded(candidate: Candidate) -> TrialResult:
            async with room:
                records = waiting if candidate is candidates[0] else ()
                why = purpose if candidate.part is None else Purpose.EXPLORATION
                trial = self._input(candidate, why, records, side_by_side)
                return await self._run(
                    trial if candidate.part else trial.model_copy(update={"race": race, "planning": planning})
                )

        trials = [asyncio.ensure_future(bounded(candidate)) for candidate in candidates]
        try:
            results = await asyncio.gather(*trials)
        except (asyncio.CancelledError, ChildWorkflowError) as error:
            if is_cancelled_exception(error):
                await to_the_end(asyncio.gather(*trials, return_exceptions=True))
                for trial in trials:
                    if not trial.cancelled() and trial.exception() is None:
                        self._state.spending.add_trial(trial.result())
            raise
        if purpose is not Purpose.CONFIRMATION:
            await self.ask_whether_time_is_over()
        return results

    async def complete(self, candidate: Candidate) -> TrialResult:
        """Measure in full a candidate whose trial ended early: whatever follows is compared with it."""
        trial = self._input(candidate, Purpose.CANDIDATE, (), 1)
        result = await self._run(trial.model_copy(update={"completes": True}))
        if (task := asyncio.current_task()) is not None and task.cancelling():
            self._state.spending.add_trial(result)
            raise asyncio.CancelledError  # the trial has ended with what it had, and said so: waiting for it raised nothing
        await self.ask_whether_time_is_over()
        return result

    async def ask_whether_time_is_over(self) -> None:
        """Before the time budget ends anything, the store is asked whether somebody served the run all that time.

        A run of which the store was never asked is one that began before workers left marks.
        """
        state, now = self._state, workflow.now()
        if state.time.unserved is None or not state.is_out_of_time(now) or self._asked_at == now:
            return
        key = ClockKey(run_id=state.run_id)
        clock = await workflow.execute_local_activity_method(Bookkeeping.read_clock, key, **LOCAL_STORE)
        state.time.note_unserved(clock.unserved)
        self._asked_at = workflow.now()

    async def _run(self, trial: TrialInput) -> TrialResult:
        candidate = trial.candidate
        try:
            handle = await workflow.start_child_workflow(
                TrialWorkflow.run,
                trial,
                id=trial.workflow_id,
                cancellation_type=TRIAL_CANCELLATION,
                parent_close_policy=TRIAL_PARENT_CLOSE,
                priority=share_of(self._state.run_id, self._state.priority),
                static_summary=f"{trial.purpose} {candidate.candidate_id} on {trial.samples} samples × {trial.replicates}",
            )
            if trial.purpose is not Purpose.CONFIRMATION:
                self._timed[trial.workflow_id] = handle
            result = await handle
        except ChildWorkflowError as error:
            if is_cancelled_exception(error):
                raise
            result = await self._conclude_for(trial, reason_of(error))
        else:
            self._outbox.settle(trial.records)
        finally:
            self._timed.pop(trial.workflow_id, None)
        self._state.time.note_unserved(result.unserved)
        self._state.note_metered(result)
        return result

    async def tell_time_budget(self) -> None:
        """Tell trials in flight that the time budget was changed; one that ends in this moment needs no telling."""
        state = self._state
        changed = TimeBudget(wall_time=state.limits.budget.wall_time, deadline=state.deadline)
        signals = [handle.signal(TrialWorkflow.time_budget_changed, changed) for handle in self._timed.values()]
        for failure in await asyncio.gather(*signals, return_exceptions=True):
            if isinstance(failure, BaseException) and not isinstance(failure, ApplicationError):
                raise failure

    async def _conclude_for(self, trial: TrialInput, error: str) -> TrialResult:
        """A child that failed or was terminated recorded nothing; its run does it in its place."""
        return await workflow.execute_activity_method(
            Evaluating.conclude_trial,
            Conclusion(trial=trial, ended="error", error=error),
            task_queue=self._evaluation_task_queue,
            **CONCLUDE,
        )

    async def judge(self, asked: JudgeInput) -> Judgements:
        """The verdicts on candidates, from what is stored of their trials."""
        return await workflow.execute_activity_method(
            Evaluating.judge,
            asked,
            task_queue=self._evaluation_task_queue,
            summary=f"judge {', '.join(candidate.candidate_id for candidate in asked.candidates[:3])}",
            **CONCLUDE,
        )

    def _input(self, candidate: Candidate, purpose: Purpose, records: tuple[RoundRecord, ...], side_by_side: int) -> TrialInput:
        state, execution, target = self._state, self._state.request.execution, self._state.request.target
        assert state.prepared
        split, samples = self._samples(candidate, purpose)
        asks_the_target = state.request.optimizer.answers_of is None
        return TrialInput(
            run_id=state.run_id,
            trial_id=trial_id(state.run_id, candidate, purpose),
            candidate=candidate,
            purpose=purpose,
            split=split,
            samples=samples,
            replicates=self._replicates(candidate, purpose),
            evaluation_task_queue=self._evaluation_task_queue,
            calls_per_shard=execution.samples_per_shard or CALLS_PER_SHARD,
            concurrent_samples=state.concurrent_samples,
            min_coverage=execution.min_coverage,
            max_failed_scores=execution.max_failed_scores,
            deadline=self._deadline(purpose),
            clock=state.time.clock(state.limits.budget.wall_time),
            records=records,
            references=references_of(state) if purpose is Purpose.CANDIDATE else (),
            seed=state.request.seed,
            metered=state.metered,
            concurrent_trials=side_by_side,
            activity=target.calls(execution.sample_timeout) if asks_the_target else None,
            experiment=target.rules() if asks_the_target else None,
            batches=batch_rules_of(state.request) if asks_the_target else None,
        )

    def _deadline(self, purpose: Purpose) -> datetime | None:
        """When a trial is cut off."""
        state = self._state
        if purpose is not Purpose.CONFIRMATION:
            return state.deadline
        return state.end_of_time if state.prepared and state.prepared.confirms_in_time else None

    def _samples(self, candidate: Candidate, purpose: Purpose) -> tuple[Split, int]:
        """On which samples a trial is run, and how many these are."""
        prepared = self._state.prepared
        assert prepared
        if candidate.part is not None:
            return self._state.split_of(candidate.part), candidate.part.count or 0
        match purpose:
            case Purpose.CONFIRMATION if prepared.test_samples:
                return Split.TEST, prepared.test_samples
            case Purpose.NOISE:
                noise = self._state.request.noise_first
                return prepared.search_split, min(noise.samples if noise else 0, prepared.search_samples)
        return prepared.search_split, self._state.design.samples

    def _replicates(self, candidate: Candidate, purpose: Purpose) -> int:
        """How often it answers each sample."""
        noise = self._state.request.noise_first
        if purpose is Purpose.NOISE and noise is not None:
            return noise.replicates
        if purpose is Purpose.EXPLORATION:
            return 1
        baseline, design = self._state.baseline, self._state.design
        is_baseline = baseline is None or candidate.candidate_id == baseline.candidate_id
        return design.baseline_replicates if is_baseline else design.replicates


APART: Final = {Purpose.CONFIRMATION: "confirm/", Purpose.EXPLORATION: "part/", Purpose.NOISE: "noise/"}
"""Trials of a candidate beside the one of its round."""


def trial_id(run_id: str, candidate: Candidate, purpose: Purpose) -> str:
    """The child's workflow id: the run, the round, the content; further trials of a candidate have a place of their own."""
    place = candidate.candidate_id.replace("-", "/", 1)
    part = f"/{candidate.round}.{candidate.index}" if candidate.part else ""
    return f"{run_id}/{APART.get(purpose, '')}{place}{part}"
