"""How a run closes: the winner is confirmed, the end is written, the result is given."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from ratchet.optimizer import Optimizer, StopReason
from workflows.contracts import Bookkeeping
from workflows.error_reason import reason_of
from workflows.model.activities.judge import JudgeInput, Judgements
from workflows.model.failures import shorten
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import FinishInput
from workflows.model.run.run_result import Confirmation, Ending, How, OptimizationResult
from workflows.model.run.test_split import OpenTestSplit
from workflows.model.trial import Purpose, Split
from workflows.optimizers.frame import Reporting
from workflows.policies import LOCAL_STORE, STORE
from workflows.run.end.ended import RunEnded
from workflows.run.end.ending import (
    confirmation_references,
    confirmed,
    confirmed_by_the_search,
    cut_off,
    ending_of,
    result_of,
    to_confirm,
    uncovered,
)
from workflows.run.end.release_request import asked_for_release
from workflows.run.outbox import RoundOutbox
from workflows.run.references import references_of
from workflows.run.round_records import last_round
from workflows.run.run_meters import RunMeters
from workflows.run.state import RunState
from workflows.run.trials import TrialRuns
from workflows.run.ui import Showing


class Closing:
    """The last steps of a run, in their order."""

    def __init__(
        self,
        state: RunState,
        outbox: RoundOutbox,
        trials: TrialRuns,
        showing: Showing,
        optimizer: Optimizer,
        meters: RunMeters,
    ) -> None:
        self._state = state
        self._meters = meters
        self._optimizer = optimizer
        self._outbox = outbox
        self._trials = trials
        self._showing = showing
        self.begun = False

    async def close(self, end: RunEnded) -> OptimizationResult:
        """Confirm the winner, write the end, answer. Once begun, a cancellation only ends the confirmation."""
        self.begun = True
        ending = ending_of(self._state, end, workflow.now())
        confirmation: Confirmation | None = None
        try:
            if end.status == "completed":
                confirmation = await self._confirm()
        except (asyncio.CancelledError, Exception) as error:
            if is_cancelled_exception(error):
                end = RunEnded(StopReason.CANCELLED, "Cancelled while confirming the winner", "cancelled")
                ending = ending_of(self._state, end, workflow.now())
            else:
                confirmation = Confirmation(refused=reason_of(error))
        result = await _to_the_end(self._finish(end, ending, confirmation))
        if end.status == "failed":
            raise ApplicationError(end.message, type=end.reason.value, non_retryable=True)
        return result

    async def _confirm(self) -> Confirmation | None:
        """Baseline and winner once more, where that is called for and can be paid for."""
        state = self._state
        assert state.prepared
        pair = to_confirm(state)
        if not pair:
            return None
        if not state.prepared.test_samples and not state.needs.confirmation_calls:
            return await self._cross_fitted()
        if refused := uncovered(state, pair):
            return Confirmation(refused=refused)
        if not state.prepared.test_samples:
            return await self._measured(
                [state.with_fresh_answers(candidate) for candidate in pair], Split(state.prepared.search_split)
            )
        opened = await workflow.execute_local_activity_method(
            Bookkeeping.open_test_split,
            OpenTestSplit(run_id=state.run_id, config_hashes=tuple(candidate.config_hash for candidate in pair)),
            **LOCAL_STORE,
        )
        if opened.refused is not None:
            return Confirmation(refused=opened.refused)
        measured = await self._measured(pair, Split.TEST)
        return measured.model_copy(update={"readers": opened.readers, "searched": opened.searched})

    async def _measured(self, pair: Sequence[Candidate], split: Split) -> Confirmation:
        state = self._state
        where = "on the test split" if split is Split.TEST else "with fresh answers"
        self._showing.show("running", f"confirming the winner {where}")
        results = await self._trials.run_all(pair, Purpose.CONFIRMATION)
        for result in results:
            state.spending.add_trial(result)
        scores = [result.objective_score for result in results]
        how: How = "test_split" if split is Split.TEST else "fresh_answers"
        judged = None
        if confirmed_by_the_search(state, results):
            return await self._cross_fitted()
        if len(pair) == 2 and all(result.status == "completed" for result in results):
            found = await self._judged(pair, split)
            [judged], how = found.judged, "cross_fitting" if found.alike else how
        return cut_off(results, how) or confirmed(state, scores[0], scores[-1], judged, how)

    async def _cross_fitted(self) -> Confirmation:
        """Without another call: from what the search has measured."""
        state = self._state
        assert state.prepared
        self._showing.show("running", "confirming the winner by cross-fitting")
        baseline, winner = references_of(state)
        found = await self._trials.judge(
            JudgeInput(
                run_id=state.run_id,
                split=state.prepared.search_split,
                reference=baseline,
                candidates=(winner,),
                seed=state.request.seed,
                by_cross_fitting=True,
            )
        )
        [judged] = found.judged
        return confirmed(state, None, None, judged, "cross_fitting")

    async def _judged(self, pair: Sequence[Candidate], split: Split) -> Judgements:
        baseline, winner = confirmation_references(self._state, pair)
        return await self._trials.judge(
            JudgeInput(
                run_id=self._state.run_id,
                split=split,
                reference=baseline,
                candidates=(winner,),
                seed=self._state.request.seed,
                before=() if split is Split.TEST else references_of(self._state),
            )
        )

    async def _finish(self, end: RunEnded, ending: Ending, confirmation: Confirmation | None) -> OptimizationResult:
        result = result_of(self._state, end, confirmation, workflow.now()).model_copy(update={"ending": ending})
        result = result.model_copy(update=await self._told_by_optimizer(result))
        released = await asked_for_release(self._state.request, result)
        result = result.model_copy(update={"release": released, "finished_at": workflow.now()})
        last = last_round(self._state, end.reason, end.status)
        if last is not None:
            self._outbox.add(last)
        confirmed = f"; {confirmation.explanation}" if confirmation is not None else ""
        self._showing.show(end.status, f"{result.message}{confirmed}")
        try:
            await self._write(FinishInput(run_id=self._state.run_id, result=result, records=self._outbox.waiting))
        except ActivityError as error:  # then at least that it is over, and why
            message = shorten(f"{end.message}; the result could not be stored: {reason_of(error)}")
            bare = {"status": "failed", "stop_reason": StopReason.EXECUTION_FAILURE, "message": message}
            kept = result.model_dump(include={"optimization_id", "rounds", "started_at", "finished_at"})
            await self._write(FinishInput(run_id=self._state.run_id, result=OptimizationResult.model_validate(kept | bare)))
            self._meters.run_ended("failed", StopReason.EXECUTION_FAILURE)
            raise ApplicationError(message, type=StopReason.EXECUTION_FAILURE.value, non_retryable=True) from error
        self._meters.run_ended(end.status, end.reason)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return result

    async def _told_by_optimizer(self, result: OptimizationResult) -> Mapping[str, Any]:
        """What it adds to the report, which is worth less than the rest of it."""
        if not isinstance(self._optimizer, Reporting):
            return {}
        try:
            told = self._optimizer.report(self._state.optimizer_state, result)
            return await told if inspect.isawaitable(told) else told
        except Exception as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning(f"the optimizer's part of the report is missing: {reason_of(error)}")
            return {}

    async def _write(self, finish: FinishInput) -> None:
        summary = f"{finish.result.status}: {finish.result.stop_reason}"
        await workflow.execute_activity_method(Bookkeeping.finish_run, finish, summary=summary, **STORE)


async def _to_the_end(work: Coroutine[Any, Any, OptimizationResult]) -> OptimizationResult:
    """Await work that a cancellation must not interrupt."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
