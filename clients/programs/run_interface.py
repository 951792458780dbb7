"""The interface of a run, for workflows and clients of other people's programs: typed, and light enough for a workflow sandbox.

It is Temporal's own idiom: a class with a workflow's names and types, and none of its code. Ratchet's workers have that.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from temporalio import workflow

from workflows.model.run.contract import Pending
from workflows.model.run.query_answers import Graph, Newest, Progress, UpdateAnswer
from workflows.model.run.run_result import OptimizationResult
from workflows.model.spec.execution import Adjustment, BudgetChange
from workflows.model.spec.request import OptimizationRequest

__all__ = [
    "TASK_QUEUE",
    "Adjustment",
    "BudgetChange",
    "Graph",
    "Newest",
    "Optimization",
    "OptimizationRequest",
    "OptimizationResult",
    "Pending",
    "Progress",
    "Spec",
    "UpdateAnswer",
]

TASK_QUEUE: Final = "optimization"
"""Where Ratchet's workers serve runs, unless RATCHET_TASK_QUEUE renames it."""

Spec: TypeAlias = OptimizationRequest | dict[str, Any]
"""What a spec file says, as a model or as plain JSON. A model is checked where it is made, a mapping by the run."""


@workflow.defn(name="OptimizationWorkflow")
class Optimization:
    """A run, as the argument of Temporal's own calls. It is started on `TASK_QUEUE`, and its Workflow Id is the run's id."""

    @workflow.run
    async def run(self, spec: Spec) -> OptimizationResult:
        """Optimize as the spec says. `OptimizationResult.best_configuration` is what came of it."""
        raise _of_ratchets_workers()

    @workflow.signal
    def stop_early(self, reason: str = "") -> None:
        """Have it finish what is in flight, keep the best, confirm and report."""
        raise _of_ratchets_workers()

    @workflow.query
    def progress(self) -> Progress:
        """Where it stands: status, counts, best, spend, time left, stop rules."""
        raise _of_ratchets_workers()

    @workflow.query
    def history(self) -> Newest:
        """The newest rounds."""
        raise _of_ratchets_workers()

    @workflow.query
    def trials(self) -> Newest:
        """The newest trials."""
        raise _of_ratchets_workers()

    @workflow.query
    def graph(self) -> Graph:
        """Lineage: nodes and edges."""
        raise _of_ratchets_workers()

    @workflow.query
    def rejections(self) -> Newest:
        """The newest proposals that were kept out, and why."""
        raise _of_ratchets_workers()

    @workflow.update
    def pause(self) -> UpdateAnswer:
        """Have it rest before the next round."""
        raise _of_ratchets_workers()

    @workflow.update
    def resume(self) -> UpdateAnswer:
        """Have it go on after a pause."""
        raise _of_ratchets_workers()

    @workflow.update
    def adjust(self, adjustment: Adjustment) -> UpdateAnswer:
        """Change budgets, limits and stop rules; what is left out stays."""
        raise _of_ratchets_workers()

    @workflow.update
    def propose(self, proposal: Pending) -> UpdateAnswer:
        """Have it try a configuration in the next round; factors left out keep the baseline's values."""
        raise _of_ratchets_workers()


def _of_ratchets_workers() -> NotImplementedError:
    return NotImplementedError(
        "this class has no code: start it on a task queue that Ratchet's workers serve, and register none"
    )
