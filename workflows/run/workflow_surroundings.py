"""What the round loop runs in when it is a workflow: Temporal's clock, child workflows, the store behind activities."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from ratchet.optimizer import Optimizer, StopReason
from workflows.continuation import versioning_behavior
from workflows.contracts import Evaluating
from workflows.error_reason import reason_of
from workflows.model.activities.optimizer_steps import version_key
from workflows.model.activities.stop_policies import PolicyInput
from workflows.model.run.candidates import Candidate, Rejection
from workflows.model.run.clock import StoodStill
from workflows.model.run.rounds import RoundRecord
from workflows.model.trial import Purpose, TrialResult
from workflows.policies import PROPOSE
from workflows.run.carry_over import carried, request_in_force
from workflows.run.end.ended import RunEnded
from workflows.run.outbox import RoundOutbox
from workflows.run.proposals.optimizer_calls import OptimizerCalls
from workflows.run.proposals.optimizer_frame import WorkflowFrame
from workflows.run.run_meters import RunMeters
from workflows.run.state import RunState
from workflows.run.timed_calls import TimedCalls
from workflows.run.trials import TrialRuns
from workflows.run.ui import Showing


class WorkflowSurroundings(OptimizerCalls):
    """One execution of a run."""

    def __init__(
        self,
        state: RunState,
        optimizer: Optimizer,
        frame: WorkflowFrame,
        outbox: RoundOutbox,
        trials: TrialRuns,
        showing: Showing,
        calls: TimedCalls,
        meters: RunMeters,
    ) -> None:
        super().__init__(state, optimizer, frame.begin_step)
        self._outbox = outbox
        self._trials = trials
        self._showing = showing
        self._calls = calls
        self._meters = meters
        self._steps_here = 0

    def now(self) -> datetime:
        """The time of the workflow task."""
        return workflow.now()

    async def check_clock(self) -> None:
        """Ask the store, once the time budget seems to be over."""
        await self._trials.ask_whether_time_is_over()

    def show(self, phase: str) -> None:
        """To queries, the UI and the search attributes."""
        self._showing.show("running", phase)

    async def flush(self) -> None:
        """Write the outbox."""
        await self._outbox.flush()

    async def measure(self, candidates: Sequence[Candidate], purpose: Purpose) -> list[TrialResult]:
        """As child workflows, side by side."""
        return await self._trials.run_all(candidates, purpose)

    async def complete(self, candidate: Candidate, raced: TrialResult) -> TrialResult:
        """As one more child workflow; what the race lost stays lost."""
        return (await self._trials.complete(candidate)).after_its_race(raced)

    async def propose(self) -> tuple[list[Candidate], list[Rejection]]:
        """Count the step, and propose."""
        self._steps_here += 1
        return await super().propose()

    async def stopped_by_policy(self) -> RunEnded | None:
        """Ask the spec's own rule, where it has one. It reads the books."""
        state, policy = self._state, self._state.limits.stop.policy
        if policy is None:
            return None
        await self._outbox.flush()
        assert state.prepared
        asked = PolicyInput(
            run_id=state.run_id,
            ref=policy.ref,
            fingerprint=state.prepared.versions.get(version_key("stop policy", policy.ref), ""),
            facts=state.facts_for_policy(workflow.now()),
        )
        summary = f"round {state.round}: {policy.ref}"
        try:
            answer = await self._calls.call(Evaluating.ask_stop_policy, asked, summary=summary, policy=PROPOSE)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            raise RunEnded(StopReason.EXECUTION_FAILURE, reason_of(error), "failed") from error
        return None if answer.words is None else RunEnded(StopReason.ALGORITHM_SPECIFIC, answer.words, by="policy")

    def record(self, record: RoundRecord) -> None:
        """Into the outbox; it travels with the next trial."""
        self._outbox.add(record)
        self._meters.round_decided(record)

    async def rest(self) -> bool:
        """Rest while the run is paused, and count the time."""
        state = self._state
        if not state.paused:
            return False
        since = workflow.now()
        asked = "; the first look at the baseline's answers found something" if state.waits_after_first_look else ""
        self._showing.show("paused", f"paused{asked}")
        await self._outbox.flush(state.time.stood_still.model_copy(update={"resting_since": since}))
        state.time.resting_since = since
        await workflow.wait_condition(lambda: not state.paused or state.stop_requested is not None)
        state.time.end_rest(workflow.now())
        self._showing.show("running", "going on")
        await self._outbox.flush(StoodStill(paused_for=state.time.paused_for))
        state.time.resting_since = None
        return True

    async def continue_as_new(self) -> None:
        """When Temporal suggests it, or the spec says so: the history of one execution stays short. And when another version of
        the workers serves: the next execution begins there."""
        if self._goes_on_elsewhere():
            await self._outbox.flush()
            await workflow.wait_condition(workflow.all_handlers_finished)
            workflow.continue_as_new(self._next_input(), initial_versioning_behavior=versioning_behavior(workflow.info()))

    def _goes_on_elsewhere(self) -> bool:
        info, most = workflow.info(), self._state.request.execution.max_rounds_per_execution
        if info.is_continue_as_new_suggested() or (most is not None and self._steps_here >= most):
            return True
        # Where an operator holds a run on a version, another one stays the target: each execution comes on a step at least.
        has_come_on = self._steps_here > 0 or self._state.executions == 1
        return has_come_on and versioning_behavior(info) is not None

    def _next_input(self) -> dict[str, JsonValue]:
        """A `RunInput` in JSON: of the spec what was given, so that a worker of the release before, which knows fewer keys and
        refuses others, can read a run that uses none of the newer ones."""
        assert self._state.prepared
        request = request_in_force(self._state)
        request = request.model_copy(update={"dataset": request.dataset.stored_as(self._state.prepared.dataset_id)})
        given: dict[str, JsonValue] = request.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"carried"})
        return {**given, "carried": carried(self._state).model_dump(mode="json", by_alias=True)}

    def ended(self, end: RunEnded) -> None:
        """The workflow closes the run."""
        raise end
