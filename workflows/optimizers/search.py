"""`search`: suggests values of structured factors from everything that was measured, many side by side.

The samplers need libraries that workflow code must not load: they work in the `compute` activity, on what is stored, and keep
nothing from batch to batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ratchet._canonical import canonical_json
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
from workflows.model.activities.search_plans import SearchedSpace, Suggestion, Suggestions, SuggestionsWanted
from workflows.model.run.contract import OptimizationResult
from workflows.model.spec.factors import Configuration, TextFactor
from workflows.model.spec.optimizers.search import Importances, SearchOptimizer
from workflows.optimizers.computations import IMPORTANCES, SUGGESTED
from workflows.optimizers.frame import Frame, ProposalFailed
from workflows.optimizers.text_rewrites import recent_iterations, rewritten, those_that_came
from workflows.rules.spec.search_check import searched_factors

READ_AT_THE_END = Bounded(best=500, newest=1_500)
"""What importance is computed from."""

CURSOR = "cursor"
"""How far the combinations of a finite space were looked through."""

EXHAUSTED = "exhausted"
"""Set when every combination was tried."""


class Search:
    """Asks for new values, and has them measured."""

    def __init__(self, options: SearchOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._found: dict[str, JsonValue] = {}
        """What this round's batch said beside its suggestions."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)

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
        best = next((trial for trial in trials if trial.kept), None)
        return OptimizerState(
            generation=state.generation + 1,
            best_candidate_id=best.candidate_id if best else state.best_candidate_id,
            best_score=best.score if best else state.best_score,
            algorithm_data=self._found,
        )

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
        searched = searched_factors(self._options, factors)
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
