"""`few_shot`: chooses, orders and counts examples from the training samples.

The samples never pass through here: the computation reads them, and hands back the lists to try.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from ratchet._values import ShortText
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
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.factors import Factor, JsonFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split
from workflows.optimizers.computations import CHOSEN_EXAMPLES
from workflows.optimizers.frame import Frame
from workflows.optimizers.states import first_state, next_state

EXHAUSTED = "exhausted"
"""Set when no list is left that was not tried."""

READ_FOR_EACH = 4
"""Samples that are read for each that can be chosen: some cannot be shown."""


NO_TRAIN = (
    "dataset.splits: few_shot shows train samples and scores on validation samples; give shares for both, and for "
    "test, such as {train: 0.3, validation: 0.4, test: 0.3}"
)


class FewShotOptimizer(OptimizerSpec):
    """Chooses, orders and counts few-shot examples from the training samples, by tree-structured Parzen estimators over which
    samples the better candidates show, and where. A factor of examples is a list of `{input: …, output: …}`: an example section
    of a prompt, or a structured factor of type json. Samples of validation and test are never shown."""

    defaults: ClassVar[Mapping[str, Any]] = {"stop": {"no_improvement": 0}}

    name: Literal["few_shot"]
    factor: Annotated[ShortText, Field(min_length=1)] | None = None
    """Which list of examples. Default: the only one there is."""
    min_examples: Annotated[int, Field(ge=0, le=50)] = 1
    """How many examples a candidate shows at least."""
    max_examples: Annotated[int, Field(ge=1, le=50)] = 8
    """How many it shows at most."""
    pool: Annotated[int, Field(ge=1, le=500)] = 50
    """So many training samples are chosen from, and what the baseline shows beside them. The fewer, the more is learned of
    each. Samples without `expected`, with placeholders in their text, or of more than 4,000 characters are passed over."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 4
    """How many lists of examples a round tries side by side."""

    @model_validator(mode="after")
    def _has_room(self) -> FewShotOptimizer:
        if self.min_examples > self.max_examples:
            raise ValueError(f"min_examples is {self.min_examples}, but max_examples is {self.max_examples}; lower one of them")
        return self

    @property
    def proposer(self) -> None:
        """Nobody writes examples: they are samples."""
        return

    @property
    def factors(self) -> list[str] | None:
        """The treatment."""
        return None if self.factor is None else [self.factor]

    def list_among(self, factors: Mapping[str, Factor]) -> str | None:
        """The list of examples that is meant, if that is clear."""
        lists = _lists_among(factors)
        if self.factor is not None:
            return self.factor if self.factor in lists else None
        return lists[0] if len(lists) == 1 else None

    @property
    def learns_from_train(self) -> bool:
        return True

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        lists = _lists_among(request.configuration)
        if self.factor is not None and self.factor not in lists:
            known = ", ".join(lists) or "none"
            yield f"optimizer.factor: {self.factor!r} is no list of examples that may change; known are {known}"
        elif not lists:
            yield (
                "configuration: has no list of examples; give one ({value: [], change: structured, type: json, schema: {type: "
                "array}}), or a prompt with a section of kind example"
            )
        elif self.factor is None and len(lists) > 1:
            yield f"optimizer.factor: is missing, and there are several lists; name one of {', '.join(lists)}"
        if request.dataset.lacks("train", "validation"):
            yield NO_TRAIN

    def sample_problems(self, request: OptimizationRequest, sizes: Mapping[Split, int]) -> Iterator[str]:
        if not request.dataset.lacks("train", "validation") and not (sizes.get(Split.TRAIN) and sizes.get(Split.VALIDATION)):
            yield NO_TRAIN

    def describe(self, longest: int | None) -> str:
        return f"Few-shot examples: {self.min_examples} to {self.max_examples} of {self.pool} training samples"

    def treatment(self, request: OptimizationRequest) -> Sequence[str]:
        name = self.list_among(request.configuration)
        return [] if name is None else [name]


def _lists_among(factors: Mapping[str, Factor]) -> list[str]:
    return [name for name, factor in factors.items() if isinstance(factor, JsonFactor) and isinstance(factor.value, list)]


class FewShot:
    """Asks for lists of examples, and has them measured."""

    def __init__(self, options: FewShotOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._exhausted = False

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

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
        return next_state(state, trials, {EXHAUSTED: self._exhausted})

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if not state.algorithm_data.get(EXHAUSTED):
            return GO_ON
        told = f"No list of examples is left to try after {len(history.trials):,} configurations"
        return StopDecision(should_stop=True, reason=StopReason.CONVERGENCE, message=told)

    @property
    def _factor(self) -> str:
        name = self._options.list_among(self._frame.factors)
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
