"""`halving`, an optimizer that Ratchet does not have: all of it, in one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

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
from workflows.model.spec.execution import Stop
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.factors import IntegerFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.optimizers import OptimizerKind
from workflows.optimizers.frame import Frame
from workflows.optimizers.states import first_state, next_state


class HalvingOptimizer(OptimizerSpec):
    """Goes half of the way to a number, again and again."""

    name: Literal["halving"]
    factor: str
    """Which number."""
    towards: int
    """Where to."""
    steps: Annotated[int, Field(ge=1, le=10)] = 3
    """How often."""

    @property
    def proposer(self) -> None:
        """Nobody is asked."""
        return

    @property
    def factors(self) -> list[str]:
        """The treatment."""
        return [self.factor]

    @property
    def candidates_per_round(self) -> int:
        """One after the other."""
        return 1

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        if not isinstance(request.configuration.get(self.factor), IntegerFactor):
            yield f"optimizer.factor: {self.factor!r} is no whole number that may change; name one"

    def most_trials(self, stop: Stop) -> int:
        return 1 + self.steps

    def describe(self, longest: int | None) -> str:
        return f"Halving the way to {self.towards}"


class Halving:
    """Takes one step a round."""

    def __init__(self, options: HalvingOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        parent = history.trials[-1].candidate_id
        configuration = await self._frame.configuration(parent)
        value, factor = configuration[self._options.factor], self._options.factor
        assert isinstance(value, int)
        half = value + (self._options.towards - value) // 2
        return [CandidateProposal(configuration={**configuration, factor: half}, parent_candidate_ids=(parent,))]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        return next_state(state, trials, {})

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if state.generation < self._options.steps:
            return GO_ON
        return StopDecision(should_stop=True, reason=StopReason.COMPLETED, message=f"Halved {state.generation} times")


KIND = OptimizerKind(HalvingOptimizer, Halving)
