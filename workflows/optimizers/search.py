"""`search`: suggests values of structured factors from everything that was measured, many side by side.

The samplers need libraries that workflow code must not load: they work in the `compute` activity, on what is stored, and keep
nothing from batch to batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue

from ratchet._formats.canonical import canonical_json
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
from workflows.model.activities.computation import BOUNDED, Bounded, Reads
from workflows.model.activities.search_plans import (
    Importances,
    Sampler,
    SearchedSpace,
    Suggestion,
    Suggestions,
    SuggestionsWanted,
)
from workflows.model.run.run_result import OptimizationResult
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.extensions.proposers import Asked
from workflows.model.spec.factors import Conditional, Configuration, Factor, NumberFactor, TextFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.optimizers.computations import IMPORTANCES, SUGGESTED
from workflows.optimizers.frame import Frame, ProposalFailed
from workflows.optimizers.states import first_state, next_state
from workflows.optimizers.text_rewrites import recent_iterations, rewritten, those_that_came

MOST_EARLIER_RUNS = 20

READ_AT_THE_END = Bounded(best=500, newest=1_500)
"""What importance is computed from."""

CURSOR = "cursor"
"""How far the combinations of a finite space were looked through."""

EXHAUSTED = "exhausted"
"""Set when every combination was tried."""


class SearchOptimizer(OptimizerSpec):
    """Searches structured factors: numbers, integers, choices, flags, orders, and factors that count only `when` others have
    certain values. Learns from every trial of the run, people's own candidates included, and never tries a configuration
    twice."""

    defaults: ClassVar[Mapping[str, Any]] = {"stop": {"no_improvement": 0}}
    packages = ("optuna",)

    name: Literal["search"]
    sampler: Sampler = "auto"
    """Where values come from. `auto`, what measures best in `benchmarks/search_quality.py`: for numbers alone, tree-structured
    Parzen estimators first, then a quadratic model of the best region; where there is more than numbers, some random values
    first, then those of which a Gaussian process expects the largest improvement. `tpe`, `random` and `grid` (every
    combination once, in a seeded order; numbers need a `step`) are there for comparison."""
    factors: list[str] | None = None
    """Which factors. Default: every structured factor but those of type json. All others keep the best candidate's values."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 4
    """How many configurations a round tries side by side. What a round learns helps the next one: fewer find more with the
    same number of trials, more find it sooner."""
    warm_start: Annotated[list[Annotated[ShortText, Field(min_length=1)]], Field(max_length=MOST_EARLIER_RUNS)] = Field(
        default_factory=list
    )
    """Ids of earlier runs to learn from: over the same samples, with the same scorers and objective. Factors are matched by
    name; trials with values that are out of range here are left out."""
    proposer: Asked | None = None
    """Also rewrites the text factors, so that one run treats both: every `rewrite_every`th round asks for new texts of the best
    candidate, whose numbers stay; the rounds between search numbers for its texts. Default: texts stay as they are."""
    rewrite_every: Annotated[int, Field(ge=2, le=1_000)] = 2
    """With a proposer: which rounds rewrite texts. 2: every other one."""

    def searched(self, factors: Mapping[str, Factor]) -> list[str]:
        """The factors that are searched, in the order of the spec."""
        named = factors if self.factors is None else self.factors
        return [name for name, factor in factors.items() if name in named and isinstance(factor, Conditional)]

    @property
    def earlier_runs(self) -> Sequence[str]:
        return self.warm_start

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        factors = request.configuration
        for name in self.factors or ():
            if name not in factors:
                yield f"optimizer.factors: {name!r} is no factor; known are {', '.join(factors)}"
            elif not isinstance(factors[name], Conditional):
                yield (
                    f"optimizer.factors: {name!r} is not searched; let it be a number, an integer, a choice, an order or a "
                    "flag ({value: …, change: structured, type: …})"
                )
        searched = self.searched(factors)
        if not searched and not self.factors:
            example = "({value: …, change: structured, type: number, …})"
            yield f"configuration: has no structured factor to search; give one {example}"
        for name in searched:
            factor = factors[name]
            if self.sampler == "grid" and isinstance(factor, NumberFactor) and factor.step is None and factor.min < factor.max:
                yield f"configuration.{name}.step: is missing, and a grid needs it; give step, or use another sampler"
        if self.proposer is not None and not any(isinstance(factor, TextFactor) for factor in factors.values()):
            yield "optimizer.proposer: has no text to rewrite; let a factor change as text, or drop it"

    def describe(self, longest: int | None) -> str:
        return f"Structured search ({self.sampler})"

    def treatment(self, request: OptimizationRequest) -> Sequence[str]:
        factors = request.configuration
        texts = [name for name, factor in factors.items() if isinstance(factor, TextFactor) and self.proposer is not None]
        return [*self.searched(factors), *texts]


class Search:
    """Asks for new values, and has them measured."""

    def __init__(self, options: SearchOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._found: dict[str, JsonValue] = {}
        """What this round's batch said beside its suggestions."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        parent = state.best_candidate_id or self._frame.context.baseline_candidate_id
        held = await self._frame.configuration(parent)
        wanted = min(max_candidates, self._options.candidates_per_round)
        self._found = dict(state.algorithm_data)
        if self._options.proposer is not None and (state.generation + 1) % self._options.rewrite_every == 0:
            return await those_that_came([self._rewritten(parent, held, history, index) for index in range(wanted)])
        found = await self._suggested(state, parent, wanted)
        self._found = {CURSOR: found.cursor, EXHAUSTED: found.exhausted and len(found.suggestions) < wanted}
        return [_proposal(parent, held, suggestion) for suggestion in found.suggestions]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        return next_state(state, trials, self._found)

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if not state.algorithm_data.get(EXHAUSTED) or self._options.proposer is not None:
            return GO_ON
        told = f"Every combination was tried: {len(history.trials):,} configurations"
        return StopDecision(should_stop=True, reason=StopReason.CONVERGENCE, message=told)

    async def report(self, state: OptimizerState, result: OptimizationResult) -> Mapping[str, Importances]:
        """Which factors mattered. A run that was cancelled or failed is not held up for it."""
        if result.status != "completed":
            return {}
        space = self._space(self._frame.context.baseline_candidate_id)
        try:
            found = await self._frame.compute(
                IMPORTANCES, space.model_dump(mode="json"), reads=Reads(trials=True, bounded=READ_AT_THE_END)
            )
        except ProposalFailed:
            return {}
        return {"importances": Importances.model_validate(found)}

    async def _suggested(self, state: OptimizerState, base: str, wanted: int) -> Suggestions:
        options, space, cursor = self._options, self._space(base), state.algorithm_data.get(CURSOR)
        asked = SuggestionsWanted(
            factors=space.factors,
            base=base,
            maximize=space.maximize,
            sampler=options.sampler,
            wanted=wanted,
            seed=self._frame.context.seed,
            batch=state.generation,
            cursor=cursor if isinstance(cursor, int) else 0,
        )
        bounded = BOUNDED.model_copy(update={"candidates": (base,)})
        reads = Reads(trials=True, bounded=bounded, earlier_runs=tuple(options.warm_start))
        return Suggestions.model_validate(await self._frame.compute(SUGGESTED, asked.model_dump(mode="json"), reads=reads))

    def _space(self, base: str) -> SearchedSpace:
        factors = self._frame.factors
        searched = self._options.searched(factors)
        return SearchedSpace(
            factors={name: factors[name].model_dump(mode="json", exclude_defaults=True) for name in searched},
            base=base,
            maximize=self._frame.context.direction == Direction.MAXIMIZE,
        )

    async def _rewritten(self, parent: str, held: Configuration, history: TrialHistory, index: int) -> CandidateProposal:
        """The best candidate with other texts."""
        proposer = self._options.proposer
        assert proposer is not None
        texts = tuple(name for name, factor in self._frame.factors.items() if isinstance(factor, TextFactor))
        answer = await self._frame.new_values(
            proposer, parent=parent, factors=texts, index=index, feedback=recent_iterations(history)
        )
        return rewritten(answer, held, parent, texts, {"origin": "mutation", "operators": [proposer.kind]})


def _proposal(parent: str, held: Configuration, suggestion: Suggestion) -> CandidateProposal:
    values = suggestion.values
    changed = [name for name, value in values.items() if canonical_json(value) != canonical_json(held[name])]
    return CandidateProposal(
        configuration={**held, **values},
        parent_candidate_ids=(parent,),
        extra={"origin": "search", "operators": [suggestion.by], "components": [*sorted(changed)]},
    )
