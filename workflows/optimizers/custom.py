"""`python`: a user's optimizer, given by reference. Each of its steps runs whole inside an activity: its state and what there
is to observe go in, its state, its proposals and its decision come out.

The frame's `initialize`, `observe` and `should_stop` are plain functions, which cannot wait for an activity. So what it is to
observe is kept until the next step, which begins with it: the order of its methods is that of every optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from ratchet._values import CanonicalMapping, ShortText
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
from workflows.model.activities.optimizer_steps import CustomStepInput, CustomStepResult, Kept, OwnOptimizer
from workflows.model.spec.extensions.named_plugins import NamedPlugin, PluginReference
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.request import OptimizationRequest
from workflows.optimizers.frame import Frame
from workflows.optimizers.states import first_state
from workflows.rules.spec.treatment import treatment_problems
from workflows.run.end.ended import RunEnded


class PythonOptimizer(OptimizerSpec):
    """A class of yours with the four methods of `ratchet.Optimizer`. It runs in an activity, so any Python will do; it is made
    anew for every step and keeps what it remembers in its state. `ratchet.testing.check_protocol` tests it."""

    name: Literal["python"]
    ref: PluginReference
    """`package.module:Class`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""
    options: CanonicalMapping = Field(default_factory=dict)
    """What the class is made with, by the names of its parameters."""
    factors: list[str] | None = None
    """The treatment, which it is told as `context.factors`. Default: every factor that may change."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 1
    """How many candidates it is asked for at most."""
    examples: Annotated[int, Field(ge=0, le=200)] = 20
    """How many evaluated samples of each new trial `observe` is shown, failed ones first."""

    @property
    def proposer(self) -> None:
        """It proposes itself."""
        return

    @property
    def own_class(self) -> OwnOptimizer:
        return OwnOptimizer(ref=self.ref, options=self.options, examples=self.examples)

    def plugins(self) -> Iterator[NamedPlugin]:
        yield NamedPlugin("optimizer.ref", self.ref, 0, self.version)

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        yield from treatment_problems(request)

    def describe(self, longest: int | None) -> str:
        return f"Python: {self.ref}"


class ByReference:
    """Hands every step to the activity, and keeps what it answered."""

    def __init__(self, options: PythonOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._stepped: CustomStepResult | None = None

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        kept = Kept.model_validate(state.algorithm_data) if state.algorithm_data else None
        context = self._frame.context
        domains = {
            name: factor.model_dump(mode="json", by_alias=True, exclude={"value"})
            for name, factor in self._frame.factors.items()
        }
        self._stepped = await self._frame.own_step(
            CustomStepInput(
                run_id=context.optimization_id,
                optimizer=self._options.own_class,
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
