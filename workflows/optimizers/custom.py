"""`python`: a user's optimizer, given by reference. Each of its steps runs whole inside an activity: its state and what there
is to observe go in, its state, its proposals and its decision come out.

The frame's `initialize`, `observe` and `should_stop` are plain functions, which cannot wait for an activity. So what it is to
observe is kept until the next step, which begins with it: the order of its methods is that of every optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    OptimizerState,
    RunContext,
    StopDecision,
    StopReason,
    TrialFacts,
    TrialHistory,
)
from workflows.model.activities.optimizer_steps import Kept, OwnStep, OwnStepped
from workflows.model.spec.optimizers.custom import PythonOptimizer
from workflows.optimizers.frame import Frame
from workflows.run.ending import RunEnded


class ByReference:
    """Hands every step to the activity, and keeps what it answered."""

    def __init__(self, options: PythonOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._stepped: OwnStepped | None = None

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        kept = Kept.model_validate(state.algorithm_data) if state.algorithm_data else None
        context = self._frame.context
        domains = {
            name: factor.model_dump(mode="json", by_alias=True, exclude={"value"})
            for name, factor in self._frame.factors.items()
        }
        self._stepped = await self._frame.own_step(
            OwnStep(
                run_id=context.optimization_id,
                optimizer=self._options,
                context=context.model_copy(update={"domains": domains}),
                state=kept.state if kept else None,
                observed=kept.observed if kept else None,
                max_candidates=max_candidates,
            )
        )
        decision = self._stepped.decision
        if decision.should_stop:
            message = decision.message or f"Stopped by {self._options.ref}"
            raise RunEnded(decision.reason or StopReason.ALGORITHM_SPECIFIC, message, by="optimizer")
        return self._stepped.proposals

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        assert self._stepped is not None
        own = self._stepped.state
        kept = Kept(state=own, observed=tuple(trials))
        return own.model_copy(update={"algorithm_data": kept.as_data()})

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return GO_ON
