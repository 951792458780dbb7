"""`reflect`: rewrites texts by reflection on failures, and learns from every answer what each line is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from ratchet._formats.canonical import derive_seed
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
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.extensions.proposers import Asked
from workflows.model.spec.request import OptimizationRequest
from workflows.optimizers.computations import NEXT_STEP
from workflows.optimizers.frame import Frame
from workflows.optimizers.planned_steps import after, carried_out, convergence, count, planned
from workflows.optimizers.states import first_state
from workflows.optimizers.text_rewrites import described, rewritable
from workflows.rules.spec.treatment import changed_by, rewriting_problems

SEEDED_AS: Final = "gepa"
"""What seeds are derived from: its name when it was measured. Another word means other draws than those of the figures."""


class ReflectOptimizer(OptimizerSpec):
    """Rewrites texts by reflection. Failures of the newest candidates are shown to a proposer, which rewrites what looks best.
    The result is measured on a few samples. Every answer to every sample counts as evidence of what each line of the texts is
    worth, and lines that help are carried over from one text to another. Only a leader is measured on all samples. A round is a
    number of such steps and the full measurement that ends it."""

    name: Literal["reflect"]
    proposer: Asked
    """Who rewrites. A model rewrites texts; a plug-in may change any factor."""
    factors: list[str] | None = None
    """The treatment. Default: every text that may change, or with a Python proposer every factor that may."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 4
    """How many proposals a step rewrites and measures side by side."""
    minibatch: Annotated[int, Field(ge=1, le=1_000)] = 10
    """On how many samples a proposal is measured first."""
    components: Literal["all", "round_robin"] = "all"
    """Whether a rewriting may change all texts at once, or one after the other."""
    steps_per_round: Annotated[int, Field(ge=1, le=100)] = 8
    """So many steps and the leader is measured in full."""
    brevity: Annotated[float, Field(ge=0)] = 0.0
    """How much of the score a line must be worth to be in the leader. Default: anything above 0. Of equal scores the one with
    the shorter texts is kept."""

    @property
    def prefers_shorter(self) -> bool:
        """Equal scores are decided by length."""
        return True

    @property
    def smallest_part(self) -> int:
        """Going on is worth while as long as this many samples can be paid for."""
        return self.minibatch

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        yield from rewriting_problems(self.proposer, request)

    def describe(self, longest: int | None) -> str:
        return described(self.proposer, longest)

    def treatment(self, request: OptimizationRequest) -> Sequence[str]:
        return changed_by(self.proposer, request)


class Reflect:
    """Reflects, measures a little, and measures in full what leads."""

    def __init__(self, options: ReflectOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._plan = StepPlan()
        """What this step is about to do."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        self._plan = await planned(self._frame, NEXT_STEP, self._situation(state))
        return await carried_out(self._plan, self._options.proposer, self._frame)

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        round_over = self._plan.rests or any(trial.part is None for trial in trials)
        return after(self._plan, state, trials, {"steps": 0 if round_over else count(state, "steps") + 1}, "thompson_sampling")

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
            factors=rewritable(self._frame.factors, options.factors, options.proposer),
            one_at_a_time=options.components == "round_robin",
            candidates_per_round=options.candidates_per_round,
            minibatch=options.minibatch,
            search=prospects.search_samples,
            train=prospects.train_samples,
            replicates=prospects.replicates,
            calls_left=prospects.calls_left,
            trials_left=prospects.trials_left,
            brevity=options.brevity,
        )
