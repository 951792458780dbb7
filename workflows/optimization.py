"""OptimizationWorkflow: baseline, then rounds of propose, validate, trigger, observe, until a stop rule says so."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ratchet.optimizer import StopReason
    from workflows.contracts import Bookkeeping
    from workflows.error_reason import reason_of
    from workflows.inputs import refuse_foreign_state, refuse_other_than_one, refuse_unusable_id
    from workflows.model.failures import INVALID_REQUEST, shorten
    from workflows.model.run.contract import HistoryPage, Pending, RunInput
    from workflows.model.run.query_answers import Graph, Newest, Progress, UpdateAnswer
    from workflows.model.run.run_result import OptimizationResult
    from workflows.model.spec.execution import Adjustment
    from workflows.optimizers import build_optimizer
    from workflows.policies import STORE
    from workflows.rules.decisions.budget import used_up
    from workflows.rules.spec.check import unknown_limits
    from workflows.run import queries
    from workflows.run.carry_over import pick_up
    from workflows.run.end.ended import RunEnded
    from workflows.run.end.finish import Closing
    from workflows.run.loop import RoundLoop
    from workflows.run.outbox import RoundOutbox
    from workflows.run.prepare import prepared
    from workflows.run.proposals.manual_proposals import refuse_inadmissible
    from workflows.run.proposals.optimizer_frame import WorkflowFrame
    from workflows.run.run_meters import RunMeters
    from workflows.run.state import RunState
    from workflows.run.timed_calls import TimedCalls
    from workflows.run.trials import TrialRuns
    from workflows.run.ui import Showing
    from workflows.run.workflow_surroundings import WorkflowSurroundings


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
        self.outbox = RoundOutbox(self.state)
        self.showing = Showing(self.state)
        self.trials = trials = TrialRuns(self.state, self.outbox, self.evaluation_task_queue)
        calls = TimedCalls(self.state, self.evaluation_task_queue, trials.ask_whether_time_is_over)
        frame = WorkflowFrame(self.state, calls, self.outbox.flush)
        optimizer = build_optimizer(request.optimizer, frame)
        self.meters = meters = RunMeters(workflow.metric_meter(), request.optimizer.name)
        surroundings = WorkflowSurroundings(self.state, optimizer, frame, self.outbox, trials, self.showing, calls, meters)
        self.loop = RoundLoop(self.state, surroundings)
        self.closing = Closing(self.state, self.outbox, trials, self.showing, optimizer, meters)

    @workflow.run
    async def run(self, request: RunInput) -> OptimizationResult:
        try:
            if request.carried is None:
                await self._prepare()
                await self.loop.measure_baseline()
            else:
                await self._read_back()
            await self.loop.rounds()
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
        state.open(await prepared(state.run_id, state.request, self.evaluation_task_queue, state.time.started_at))
        self.meters.run_begun()

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
        await self.outbox.flush()
        timed = adjustment.budget is not None and adjustment.budget.wall_time is not None
        if timed:
            await self.trials.tell_time_budget()
        noticed = "; trials in flight notice it within seconds" if adjustment.concerns_calls or timed else ""
        elapsed = state.time.elapsed(workflow.now())
        spent = used_up(adjustment.budget, state.spending.counted, elapsed) if adjustment.budget else ""
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
