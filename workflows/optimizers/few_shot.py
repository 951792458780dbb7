"""`few_shot`: chooses, orders and counts examples from the training samples.

The samples never pass through here: the computation reads them, and hands back the lists to try.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    Direction,
    OptimizerState,
    RunContext,
    StopDecision,
    StopReason,
    TrialFacts,
    TrialHistory,
)
from workflows.model.activities.computation import BOUNDED, Reads, SamplesOf
from workflows.model.activities.search_plans import ChosenExamples, ExamplesWanted
from workflows.model.spec.optimizers.few_shot import FewShotOptimizer
from workflows.model.trial import Split
from workflows.optimizers.computations import CHOSEN_EXAMPLES
from workflows.optimizers.frame import Frame
from workflows.rules.spec.example_factors import example_factor

EXHAUSTED = "exhausted"
"""Set when no list is left that was not tried."""

READ_FOR_EACH = 4
"""Samples that are read for each that can be chosen: some cannot be shown."""


class FewShot:
    """Asks for lists of examples, and has them measured."""

    def __init__(self, options: FewShotOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._exhausted = False

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        parent = state.best_candidate_id or self._frame.context.baseline_candidate_id
        held = await self._frame.configuration(parent)
        factor = self._factor
        found = await self._chosen(state, parent, min(max_candidates, self._options.candidates_per_round))
        self._exhausted = found.exhausted
        return [
            CandidateProposal(
                configuration={**held, factor: [found.examples[str(place)] for place in choice]},
                parent_candidate_ids=(parent,),
                rationale=f"{len(choice)} of {found.pool} examples: {', '.join(f'#{place + 1}' for place in choice)}",
                extra={"origin": "examples", "operators": [found.by], "components": [factor]},
            )
            for choice in found.choices
        ]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        best = next((trial for trial in trials if trial.kept), None)
        return OptimizerState(
            generation=state.generation + 1,
            best_candidate_id=best.candidate_id if best else state.best_candidate_id,
            best_score=best.score if best else state.best_score,
            algorithm_data={EXHAUSTED: self._exhausted},
        )

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if not state.algorithm_data.get(EXHAUSTED):
            return GO_ON
        told = f"No list of examples is left to try after {len(history.trials):,} configurations"
        return StopDecision(should_stop=True, reason=StopReason.CONVERGENCE, message=told)

    @property
    def _factor(self) -> str:
        name = example_factor(self._options, self._frame.factors)
        assert name is not None
        return name

    async def _chosen(self, state: OptimizerState, base: str, wanted: int) -> ChosenExamples:
        options, context = self._options, self._frame.context
        shown: Any = self._frame.factors[self._factor].value
        asked = ExamplesWanted(
            factor=self._factor,
            shown=shown,
            base=base,
            fewest=options.min_examples,
            most=options.max_examples,
            pool=options.pool,
            wanted=wanted,
            seed=context.seed,
            batch=state.generation,
            maximize=context.direction == Direction.MAXIMIZE,
        )
        reads = Reads(
            trials=True,
            bounded=BOUNDED.model_copy(update={"candidates": (base,)}),
            samples=SamplesOf(split=Split.TRAIN, limit=options.pool * READ_FOR_EACH),
        )
        found = await self._frame.compute(CHOSEN_EXAMPLES, asked.model_dump(mode="json"), reads=reads)
        return ChosenExamples.model_validate(found)
