"""`reflect`: rewrites texts by reflection on failures, and learns from every answer what each line is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ratchet._canonical import derive_seed
from ratchet.optimizer import (
    CandidateProposal,
    Direction,
    OptimizerState,
    RunContext,
    StopDecision,
    TrialFacts,
    TrialHistory,
)
from workflows.model.activities.reflection_plans import ReflectSituation, StepPlan
from workflows.model.spec.optimizers.reflect import ReflectOptimizer
from workflows.optimizers.computations import NEXT_STEP
from workflows.optimizers.frame import Frame
from workflows.optimizers.planned_steps import after, carried_out, convergence, count, planned, treatment

SEEDED_AS: Final = "gepa"
"""What seeds are derived from: its name when it was measured. Another word means other draws than those of the figures."""


class Reflect:
    """Reflects, measures a little, and measures in full what leads."""

    def __init__(self, options: ReflectOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._plan = StepPlan()
        """What this step is about to do."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        self._plan = await planned(self._frame, NEXT_STEP, self._situation(state))
        return await carried_out(self._plan, self._options.proposer, self._frame)

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        round_over = self._plan.rests or any(trial.part is None for trial in trials)
        return after(self._plan, state, trials, {"steps": 0 if round_over else count(state, "steps") + 1})

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return convergence(state)

    def _situation(self, state: OptimizerState) -> ReflectSituation:
        options, context, prospects = self._options, self._frame.context, self._frame.prospects
        return ReflectSituation(
            seed=derive_seed(context.seed, SEEDED_AS, state.generation),
            sign=1.0 if context.direction is Direction.MAXIMIZE else -1.0,
            generation=state.generation,
            steps=count(state, "steps"),
            steps_per_round=options.steps_per_round,
            factors=treatment(options, self._frame),
            one_at_a_time=options.components == "round_robin",
            beside=options.candidates_per_round,
            minibatch=options.minibatch,
            search=prospects.search_samples,
            train=prospects.train_samples,
            replicates=prospects.replicates,
            calls_left=prospects.calls_left,
            trials_left=prospects.trials_left,
            brevity=options.brevity,
        )
