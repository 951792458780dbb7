"""TrialWorkflow: one candidate, evaluated by its kind of target, aggregated and recorded by itself."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Self

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from workflows.contracts import Bookkeeping, Evaluating
    from workflows.inputs import refuse_other_than_one
    from workflows.model.failures import shorten
    from workflows.model.run.clock import ClockKey, RunClock, TimeBudget
    from workflows.model.trial import Conclusion, ShardResult, TrialInput, TrialResult
    from workflows.policies import CONCLUDE, LOCAL_STORE
    from workflows.rules.decisions.deadline import moved_deadline
    from workflows.rules.scoring.merged_parts import ending_of
    from workflows.trials.batched import InBatches
    from workflows.trials.endings import (
        Evaluation,
        GoesOn,
        ScoringBroke,
        TrialEnded,
        errors_of,
        is_being_cancelled,
        to_the_end,
    )
    from workflows.trials.external_activity import ByActivity
    from workflows.trials.external_runner import SIGNAL, Announcements, OnRunner
    from workflows.trials.raced import InBlocks
    from workflows.trials.sharded import InShards
    from workflows.trials.told_calls import ToldCalls


@workflow.defn
class TrialWorkflow:
    """Evaluates one candidate. Whatever ends it, what was answered is aggregated and recorded."""

    def __new__(cls, *inputs: object) -> Self:
        refuse_other_than_one(inputs, "TrialInput")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, trial: TrialInput) -> None:
        """Takes what it is started with, so that a wrong start is noticed before anything else."""
        self.announcements = Announcements()
        self.conclusion = Conclusion(
            trial=trial.model_copy(update={"records": (), "resumed": None}),
            started_at=trial.resumed.started_at if trial.resumed else workflow.info().start_time,
        )
        self.deadline = trial.deadline
        self.clock = trial.clock
        """What the deadline was set by. None: it was set before workers left marks, and stays as it is."""
        self.woken: asyncio.Future[None] = asyncio.Future()
        """Done when somebody changed the deadline that is waited for."""
        self.told = ToldCalls(trial.resumed)
        self.evaluation = self._evaluation_of(trial)

    def _evaluation_of(self, trial: TrialInput) -> Evaluation:
        if trial.experiment is not None:
            return OnRunner(trial, trial.experiment, self.announcements)
        answering: ByActivity | InBatches | InShards
        if trial.activity is not None:
            answering = ByActivity(trial, trial.activity, self.told)
        elif trial.batches is not None:
            answering = InBatches(trial, trial.batches, InShards(trial, self.conclusion, self.told), self.told)
        else:
            answering = InShards(trial, self.conclusion, self.told)
        return InBlocks(trial, trial.race, answering) if trial.race else answering

    @workflow.signal(name=SIGNAL, description="An external runner says that its experiment is over: {experiment_id, status}")
    def experiment_finished(self, *given: Any) -> None:
        """Takes anything, from anybody, at any time: it only makes the trial ask the runner at once."""
        self.announcements.hear(given)

    @workflow.signal(description="The run's time budget was changed")
    def time_budget_changed(self, changed: TimeBudget) -> None:
        """Wake the trial, which goes by the new deadline from now on. The confirmation has none, and is not told."""
        self.deadline = changed.deadline
        if not self.woken.done():
            self.woken.set_result(None)
        if self.clock is not None:
            self.clock = self.clock.model_copy(update={"wall_time": changed.wall_time})

    @workflow.run
    async def run(self, trial: TrialInput) -> TrialResult:
        if trial.resumed is None:
            self._learn_time(await workflow.execute_local_activity_method(Bookkeeping.begin_trial, trial, **LOCAL_STORE))
        try:
            ended = await self._how_it_ended(trial)
        except GoesOn as further:
            resumed = further.resumed.model_copy(update=self.told.in_resumed())
            on = {"records": (), "resumed": resumed, "deadline": self.deadline, "clock": self.clock}
            workflow.continue_as_new(trial.model_copy(update=on))
        if self.told.concluded is not None:
            return self.told.concluded
        known = {"experiment_id": self.evaluation.experiment_id, "looks": tuple(self.evaluation.looks)}
        return await workflow.execute_activity_method(
            Evaluating.conclude_trial,
            self.conclusion.model_copy(update={**ended, **self.told.in_conclusion(), **known}),
            task_queue=trial.evaluation_task_queue,
            summary=f"aggregate {trial.candidate.candidate_id}",
            **CONCLUDE,
        )

    async def _how_it_ended(self, trial: TrialInput) -> dict[str, Any]:
        """Get every answer, and say how that ended, in the fields of the conclusion."""
        try:
            results = await self._evaluate_in_time(trial.run_id)
        except ScoringBroke as broke:
            return {"scoring_error": str(broke)}
        except TrialEnded as end:
            return {"ended": end.ended, "error": shorten(end.error)}
        except (asyncio.CancelledError, ActivityError) as error:
            if is_cancelled_exception(error) or is_being_cancelled():
                return {"ended": "cancelled", "error": "the trial was cancelled"}
            cause = error.cause if isinstance(error, ActivityError) else None
            return {"ended": "error", "error": shorten(_message(cause or error)), "errors": errors_of(cause)}
        if results is None:
            return {"ended": "timeout", "error": "the run's time budget is over"}
        return ending_of(results)

    async def _evaluate_in_time(self, run_id: str) -> list[ShardResult] | None:
        """Every shard's result; None when the run's time was over first, and the shards handed back what they had."""
        work = asyncio.ensure_future(self.evaluation.run())
        try:
            while (left := self._seconds_left()) > 0:
                self.woken = asyncio.Future()
                either: list[asyncio.Future[Any]] = [work, self.woken]
                timeout = left if math.isfinite(left) else None
                await workflow.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    break
                if self.clock is None:
                    continue
                key = ClockKey(run_id=run_id)
                self._learn_time(await workflow.execute_local_activity_method(Bookkeeping.read_clock, key, **LOCAL_STORE))
                if work.done():
                    break
            if work.done():
                return work.result()
        finally:
            work.cancel()
            await to_the_end(asyncio.gather(work, return_exceptions=True))
        return None

    def _learn_time(self, told: RunClock | None) -> None:
        """Move the deadline by what nobody served of the time until it, and by what people made of the time budget."""
        if told is None:
            return
        if self.deadline is not None and self.clock is not None:
            self.deadline = moved_deadline(self.deadline, self.clock, told)
        self.clock = told

    def _seconds_left(self) -> float:
        return math.inf if self.deadline is None else (self.deadline - workflow.now()).total_seconds()


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, ApplicationError) else str(error)
