"""`gepa`: the published algorithm, with Pareto fronts by sample and a strict gate on a minibatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

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
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.extensions.proposers import Asked
from workflows.model.spec.factors import TextFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.optimizers.computations import PUBLISHED_STEP
from workflows.optimizers.frame import Frame
from workflows.optimizers.planned_steps import after, carried_out, convergence, planned
from workflows.optimizers.states import first_state
from workflows.optimizers.text_rewrites import described, rewritable
from workflows.rules.spec.treatment import changed_by, rewriting_problems

NO_MODE = "gepa is the published algorithm now; use `optimizer: reflect` for the other one, and leave mode out"
"""For specs of the time when both were called `gepa`."""

UNDER_WAY = "under_way"
"""What the algorithm is in the middle of, in its state."""


class GepaOptimizer(OptimizerSpec):
    """The published GEPA. A parent is drawn by how many samples it leads on (Pareto fronts by sample). A proposer reads what
    failed on a minibatch and rewrites a text. The child is measured on the same samples, and on all of them only where it did
    strictly better."""

    name: Literal["gepa"]
    proposer: Asked
    """Who rewrites. A model rewrites texts; a plug-in may change any factor."""
    factors: list[str] | None = None
    """The treatment. Default: every text that may change, or with a Python proposer every factor that may."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 1
    """How many parents are drawn, rewritten and measured side by side."""
    minibatch: Annotated[int, Field(ge=1, le=1_000)] = 3
    """On how many samples a child must do better than its parent, before all samples are paid for."""
    components: Literal["all", "round_robin"] = "round_robin"
    """Whether a rewriting may change all texts at once, or one after the other."""
    merges: Annotated[int, Field(ge=0, le=100)] = 0
    """How many merges of two candidates that descend from the same one may be let in; 5 is usual. Only configurations of
    several texts can be merged."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_mode(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "mode" in value:
            problem = InitErrorDetails(type=PydanticCustomError("value_error", NO_MODE), loc=("mode",), input=value)
            raise ValidationError.from_exception_data(cls.__name__, [problem])
        return value

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
        if not self.merges:
            return
        treated = self.factors or request.changeable
        texts = [name for name in treated if isinstance(request.configuration.get(name), TextFactor)]
        if len(texts) < 2:
            yield f"optimizer.merges: merging takes texts from two candidates, but {len(texts)} may change; drop merges"

    def describe(self, longest: int | None) -> str:
        return described(self.proposer, longest)

    def treatment(self, request: OptimizationRequest) -> Sequence[str]:
        return changed_by(self.proposer, request)


class Gepa:
    """Draws parents by their fronts, reflects on a minibatch, and measures in full what does better on it."""

    def __init__(self, options: GepaOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._plan = StepPlan()
        """What this step is about to do."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        self._plan = await planned(self._frame, PUBLISHED_STEP, self._situation(state))
        return await carried_out(self._plan, self._options.proposer, self._frame)

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        own = {UNDER_WAY: self._plan.under_way.model_dump(mode="json", exclude_defaults=True)}
        return after(self._plan, state, trials, own, "pareto_front_by_sample")

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return convergence(state)

    def _situation(self, state: OptimizerState) -> GepaSituation:
        options, context, prospects = self._options, self._frame.context, self._frame.prospects
        return GepaSituation(
            run_seed=context.seed,
            sign=1.0 if context.direction is Direction.MAXIMIZE else -1.0,
            factors=rewritable(self._frame.factors, options.factors, options.proposer),
            one_at_a_time=options.components == "round_robin",
            candidates_per_round=options.candidates_per_round,
            minibatch=options.minibatch,
            search=prospects.search_samples,
            train=prospects.train_samples,
            merges=options.merges,
            under_way=UnderWay.model_validate(state.algorithm_data.get(UNDER_WAY) or {}),
        )
