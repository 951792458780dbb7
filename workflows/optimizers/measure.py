"""`none`: no search. Measures the configuration, and the variations the spec lists, side by side in one round."""

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
from workflows.model.spec.execution import MeasureOptimizer
from workflows.optimizers.frame import Frame


class Measure:
    """Tries what it was given, once."""

    def __init__(self, options: MeasureOptimizer, frame: Frame) -> None:
        self._variations = options.configurations
        self._frame = frame

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        baseline = self._frame.context.baseline_candidate_id
        configuration = await self._frame.configuration(baseline)
        return [
            CandidateProposal(
                configuration={**configuration, **variation},
                parent_candidate_ids=(baseline,),
                extra={"origin": "listed", "components": sorted(variation), "place": place},
            )
            for place, variation in enumerate(self._variations)
        ]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        return state.model_copy(update={"generation": state.generation + 1})

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if self._variations and state.generation == 0:
            return GO_ON
        message = f"All {len(self._variations) + 1} configurations were measured" if self._variations else "Measured"
        return StopDecision(should_stop=True, reason=StopReason.COMPLETED, message=message)
