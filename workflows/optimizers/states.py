"""How most optimizers' states begin, and how they go on from round to round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ratchet.optimizer import OptimizerState, RunContext, TrialFacts


def first_state(context: RunContext) -> OptimizerState:
    """Begin with the baseline as the best."""
    return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)


def next_state(state: OptimizerState, trials: Sequence[TrialFacts], data: Mapping[str, JsonValue]) -> OptimizerState:
    """Go on from the candidate that the run has kept, if it kept one, with the algorithm's own data."""
    best = next((trial for trial in trials if trial.kept), None)
    return OptimizerState(
        generation=state.generation + 1,
        best_candidate_id=best.candidate_id if best else state.best_candidate_id,
        best_score=best.score if best else state.best_score,
        algorithm_data=dict(data),
    )
