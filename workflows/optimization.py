"""OptimizationWorkflow: baseline, then rounds of propose, validate, trigger, observe, until a stop rule says so."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, Self

from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ratchet._canonical import content_hash
    from ratchet.optimizer import CandidateProposal, StopReason
    from workflows.contracts import Bookkeeping
    from workflows.model.failures import INVALID_REQUEST, shorten
    from workflows.model.run.candidates import Candidate, Rejection
    from workflows.model.run.clock import StoodStill
    from workflows.model.run.contract import (
        Graph,
        HistoryPage,
        Newest,
        OptimizationResult,
        Pending,
        Progress,
        RunInput,
        UpdateAnswer,
    )
    from workflows.model.spec.execution import Adjustment
    from workflows.model.trial import Purpose, TrialResult
    from workflows.optimizers import build_optimizer
    from workflows.optimizers.frame import BudgetRefused, ProposalFailed
    from workflows.optimizers.guard import OptimizerGuard
    from workflows.policies import STORE
    from workflows.rules.decisions.budget import exhausted_by, used_up
    from workflows.rules.spec.check import unknown_limits
    from workflows.run import queries
    from workflows.run.carry_over import carried, pick_up, request_in_force
    from workflows.run.ending import RunEnded, ended_by_rules, scoring_broke, unmeasured
    from workflows.run.error_reason import reason_of
    from workflows.run.finish import Closing
    from workflows.run.inputs import refuse_foreign_state, refuse_other_than_one, refuse_unusable_id
    from workflows.run.manual_proposals import own_proposal, refuse_inadmissible
    from workflows.run.optimizer_frame import WorkflowFrame
    from workflows.run.outbox import RoundOutbox
    from workflows.run.prepare import prepared
    from workflows.run.round_records import round_record, step_record
    from workflows.run.state import RunState
    from workflows.run.trials import TrialRuns
    from workflows.run.ui import Showing


@workflow.defn
class OptimizationWorkflow:
    """One run. Its Workflow Id is the run's id, across every continue-as-new."""

    def __new__(cls, *inputs: object) -> Self:
        refuse_other_than_one(inputs, "OptimizationRequest")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: RunInput) -> None:
        info = workflow.info()
        refuse_unusable_id(info.workflow_id)
        refuse_foreign_state(request.carried, continued=info.continued_run_id is not None)
        self.evaluation_task_queue = request.execution.evaluation_task_queue or f"{info.task_queue}-evaluation"
        self.state = RunState(info.workflow_id, request, workflow.now())
        if request.carried is not None:  # here, since messages are handled before `run` begins
            pick_up(self.state, request.carried)
        self.ledger = RoundOutbox(self.state)
        self.trials = TrialRuns(self.state, self.ledger, self.evaluation_task_queue)
        self.showing = Showing(self.state)
        self.frame = WorkflowFrame(self.state, self.evaluation_task_queue, self.ledger.flush)
        self.optimizer = build_optimizer(request.optimizer, self.frame)
        self.closing = Closing(self.state, self.ledger, self.trials, self.showing, self.optimizer)
        self.steps_here = 0

    @workflow.run
    async def run(self, request: RunInput) -> OptimizationResult:
        try:
            if request.carried is None:
                await self._prepare()
                await self._measure_baseline()
            else:
                await self._read_back()
            while True:
                await self._stop_if_decided()
                await self._pause_or_continue_as_new()
                candidates, rejections = self.state.admit(await self._propose())
                results = await self._run_trials(candidates)
                self._observe(candidates, rejections, results)
        except RunEnded as end:
            return await self.closing.close(end)
        except workflow.NondeterminismError:
            raise  # it waits for the code that it began with
        except (asyncio.CancelledError, Exception) as error:
            if is_cancelled_exception(error):
                await self.closing.close(RunEnded(StopReason.CANCELLED, "Cancelled", "cancelled"))
            elif self.state.prepared is not None:
                await self.closing.close(RunEnded(StopReason.EXECUTION_FAILURE, reason_of(error), "failed"))
            raise

    # -- opening ----------------------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Check everything that can be checked. A spec that is refused leaves nothing behind."""
        self.showing.show("initialized", "checking the spec and the data")
        state = self.state
        state.open(await prepared(state.run_id, state.request, self.evaluation_task_queue, state.started_at))

    async def _measure_baseline(self) -> None:
        candidate = self.state.baseline_candidate(content_hash(self.state.request.baseline))
        await self._measure_noise(candidate)
        self.showing.show("running", "measuring the baseline")
        await self.ledger.flush()
        [result] = await self.trials.run_all([candidate], Purpose.BASELINE)
        facts = self.state.record_baseline(candidate, result)
        self.ledger.add(round_record(self.state, [candidate], [], [facts], workflow.now()))
        self._refuse_unmeasured(result)
        with self._optimizer_code("initialize"):
            self.state.optimizer_state = self.optimizer.initialize(self.state.context())

    async def _measure_noise(self, baseline: Candidate) -> None:
        """Answer some samples several times, where the spec asks for that: it says what the run can find out."""
        if self.state.request.noise_first is None:
            return
        self.showing.show("running", "measuring how much scores vary")
        await self.ledger.flush()
        [result] = await self.trials.run_all([baseline], Purpose.NOISE)
        self.state.record_noise(result)
        self._refuse_unmeasured(result)

    def _refuse_unmeasured(self, baseline: TrialResult) -> None:
        if end := unmeasured(self.state, baseline):
            raise end

    async def _read_back(self) -> None:
        """Read from the store what grew too large to carry from the execution before."""
        self.showing.show("running", "reading the history back")
        read_back = 0
        while True:
            page = HistoryPage(run_id=self.state.run_id, after=read_back)
            read = await workflow.execute_activity_method(Bookkeeping.load_history, page, **STORE)
            self.state.remember(read.rows)
            read_back += len(read.rows)
            if len(read.rows) < page.limit:
                return

    # -- the round --------------------------------------------------------------------------------------------------------

    async def _stop_if_decided(self) -> None:
        state = self.state
        if state.stop_requested is not None:
            raise RunEnded(StopReason.STOPPED_EARLY, state.stop_requested)
        await self.trials.ask_whether_time_is_over()
        if end := ended_by_rules(state, workflow.now()):
            raise end
        with self._optimizer_code("should_stop"):
            decision = self.optimizer.should_stop(state.optimizer_state, state.trial_history)
        if decision.should_stop:
            message = decision.message or f"Stopped by {state.request.optimizer.name}"
            raise RunEnded(decision.reason or StopReason.ALGORITHM_SPECIFIC, message, by="optimizer")

    async def _pause_or_continue_as_new(self) -> None:
        """The top of the loop: no trial is in flight, so this is where a run may rest or change executions."""
        if self.state.paused:
            await self._rest()
        most = self.state.request.execution.max_rounds_per_execution
        if workflow.info().is_continue_as_new_suggested() or (most is not None and self.steps_here >= most):
            await self.ledger.flush()
            await workflow.wait_condition(workflow.all_handlers_finished)
            workflow.continue_as_new(self._next_input())

    async def _rest(self) -> None:
        since = workflow.now()
        self.showing.show("paused", "paused")
        await self.ledger.flush(self.state.stood_still.model_copy(update={"resting_since": since}))
        self.state.resting_since = since
        await workflow.wait_condition(lambda: not self.state.paused or self.state.stop_requested is not None)
        self.state.end_rest(workflow.now())
        self.showing.show("running", "going on")
        await self.ledger.flush(StoodStill(paused_for=self.state.paused_for))
        self.state.resting_since = None
        await self._stop_if_decided()

    def _next_input(self) -> RunInput:
        assert self.state.prepared
        request = request_in_force(self.state)
        dataset = request.dataset.stored_as(self.state.prepared.dataset_id)
        given = {name: getattr(request, name) for name in type(request).model_fields}
        return RunInput.model_construct(**{**given, "dataset": dataset, "carried": carried(self.state)})

    async def _propose(self) -> list[CandidateProposal]:
        """A person's own candidates first, then the optimizer's."""
        state = self.state
        self.frame.begin_step()
        self.showing.show("running", f"round {state.round + 1}: proposing")
        own = [own_proposal(state, pending) for pending in state.waiting]
        state.waiting = []
        try:
            with self._optimizer_code("propose"):
                proposed = self.optimizer.propose(
                    state.optimizer_state, state.trial_history, state.request.optimizer.candidates_per_round
                )
                proposals = [*own, *(await proposed if inspect.isawaitable(proposed) else proposed)]
        except BudgetRefused as error:
            over = exhausted_by(error.resource, state.limits.budget)
            raise RunEnded(over.reason or StopReason.PROPOSAL_FAILURE, over.message or "", by="proposer") from error
        except ProposalFailed as error:
            if state.lose_round(str(error)):
                raise RunEnded(StopReason.PROPOSAL_FAILURE, f"Mutation failed: {error}") from error
            return own
        state.use_round()
        return proposals

    async def _run_trials(self, candidates: Sequence[Candidate]) -> list[TrialResult]:
        parts = sum(1 for candidate in candidates if candidate.part is not None)
        doing = [f"{len(candidates) - parts} trials"] if parts < len(candidates) or not parts else []
        doing += [f"{parts} trials of some samples"] if parts else []
        self.showing.show("running", f"round {self.state.round + 1}: {', '.join(doing)}")
        results = await self.trials.run_all(candidates, Purpose.CANDIDATE)
        finished: list[int] = []
        while (place := self.state.unfinished_winner(candidates, results, finished)) is not None:
            self.showing.show("running", f"round {self.state.round + 1}: measuring {candidates[place].candidate_id} in full")
            results[place] = (await self.trials.complete(candidates[place])).after_its_race(results[place])
            finished.append(place)
        return results

    def _observe(
        self, candidates: Sequence[Candidate], rejections: Sequence[Rejection], results: Sequence[TrialResult]
    ) -> None:
        """The round is over, unless all that was done was to learn from some samples: then it goes on."""
        ends_round = self.state.ends_round(candidates)
        learned = self.state.record_parts(candidates, results)
        facts = self.state.record_round(candidates, results) if ends_round else []
        if candidates or self.state.lost_why is None:
            with self._optimizer_code("observe"):
                self.state.optimizer_state = self.optimizer.observe(self.state.optimizer_state, [*learned, *facts])
        self.steps_here += 1
        if ends_round:
            self.ledger.add(round_record(self.state, candidates, rejections, facts, workflow.now()))
        elif rejections:
            self.ledger.add(step_record(self.state, rejections, workflow.now()))
        if end := scoring_broke(results):
            raise end

    def _optimizer_code(self, method: str) -> OptimizerGuard:
        return OptimizerGuard(self.state.request.optimizer.name, method)

    # -- what people see --------------------------------------------------------------------------------------------------

    @workflow.query(description="Where the run stands: status, counts, best, spend, time left, stop rules")
    def progress(self) -> Progress:
        return queries.progress(self.state, workflow.now())

    @workflow.query(description="The newest rounds")
    def history(self) -> Newest:
        return queries.history(self.state)

    @workflow.query(name="trials", description="The newest trials")
    def newest_trials(self) -> Newest:
        return queries.trials(self.state)

    @workflow.query(description="Lineage: nodes and edges, several parents included")
    def graph(self) -> Graph:
        return queries.graph(self.state)

    @workflow.query(description="The newest proposals that were kept out, and why")
    def rejections(self) -> Newest:
        return queries.rejections(self.state)

    # -- what people ask --------------------------------------------------------------------------------------------------

    @workflow.signal(description="Finish what is in flight, keep the best, confirm, report; takes an optional reason")
    def stop_early(self, *given: Any) -> None:
        """Takes anything: a stop that is wrongly worded is still meant, and a refused call would be retried for ever."""
        reason = next((part.strip() for part in given if isinstance(part, str)), "")
        self.state.stop_requested = f"Stopped early: {shorten(reason, 200)}" if reason else "Stopped early"

    @workflow.update(description="Rest before the next round")
    def pause(self) -> UpdateAnswer:
        self.state.paused = True
        return UpdateAnswer(status=self.state.status, message="pausing: trials in flight finish, then the run rests")

    @pause.validator
    def _may_pause(self) -> None:
        self._refuse_when_closing()

    @workflow.update(description="Go on after a pause")
    def resume(self) -> UpdateAnswer:
        was_paused, self.state.paused = self.state.paused, False
        return UpdateAnswer(status="running", message="going on" if was_paused else "was not paused")

    @resume.validator
    def _may_resume(self) -> None:
        self._refuse_when_closing()

    @workflow.update(description="Change budgets, concurrency and stop rules; what is left out stays")
    async def adjust(self, adjustment: Adjustment) -> UpdateAnswer:
        state = self.state
        state.adjust(adjustment)
        await self.ledger.flush()
        noticed = "; trials in flight notice it within seconds" if adjustment.concerns_calls else ""
        spent = used_up(adjustment.budget, state.spending.counted, state.elapsed(workflow.now())) if adjustment.budget else ""
        return UpdateAnswer(status=state.status, message=f"adjusted{noticed}" + (f"; {spent}" if spent else ""))

    @adjust.validator
    def _may_adjust(self, adjustment: Adjustment) -> None:
        self._refuse_when_closing()
        for problem in unknown_limits(self.state.request, adjustment.rate_limits or {}):
            raise ApplicationError(problem, type=INVALID_REQUEST)

    @workflow.update(
        description="Try a configuration of your own in the next round; factors left out keep the baseline's values"
    )
    def propose(self, proposal: Pending) -> UpdateAnswer:
        self.state.waiting.append(proposal)
        return UpdateAnswer(status=self.state.status, message=f"queued for round {self.state.round + 1} or the one after")

    @propose.validator
    def _may_propose(self, proposal: Pending) -> None:
        self._refuse_when_closing()
        refuse_inadmissible(self.state, proposal)

    def _refuse_when_closing(self) -> None:
        if self.closing.begun:
            raise ApplicationError("the run is already finishing", type=INVALID_REQUEST)
