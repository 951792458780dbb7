"""`gepa`: the published algorithm, with Pareto fronts by sample and a strict gate on a minibatch."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.optimizer import (
    CandidateProposal,
    Direction,
    OptimizerState,
    RunContext,
    StopDecision,
    TrialFacts,
    TrialHistory,
)
from workflows.model.activities.reflection_plans import GepaSituation, StepPlan, UnderWay
from workflows.model.spec.optimizers.gepa import GepaOptimizer
from workflows.optimizers.computations import PUBLISHED_STEP
from workflows.optimizers.frame import Frame
from workflows.optimizers.planned_steps import after, carried_out, convergence, planned, treatment

UNDER_WAY = "under_way"
"""What the algorithm is in the middle of, in its state."""


class Gepa:
    """Draws parents by their fronts, reflects on a minibatch, and measures in full what does better on it."""

    def __init__(self, options: GepaOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._plan = StepPlan()
        """What this step is about to do."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        self._plan = await planned(self._frame, PUBLISHED_STEP, self._situation(state))
        return await carried_out(self._plan, self._options.proposer, self._frame)

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        own = {UNDER_WAY: self._plan.under_way.model_dump(mode="json", exclude_defaults=True)}
        return after(self._plan, state, trials, own)

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return convergence(state)

    def _situation(self, state: OptimizerState) -> GepaSituation:
        options, context, prospects = self._options, self._frame.context, self._frame.prospects
        return GepaSituation(
            run_seed=context.seed,
            sign=1.0 if context.direction is Direction.MAXIMIZE else -1.0,
            factors=treatment(options, self._frame),
            one_at_a_time=options.components == "round_robin",
            beside=options.candidates_per_round,
            minibatch=options.minibatch,
            search=prospects.search_samples,
            train=prospects.train_samples,
            merges=options.merges,
            under_way=UnderWay.model_validate(state.algorithm_data.get(UNDER_WAY) or {}),
        )
