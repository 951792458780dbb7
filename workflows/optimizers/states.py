"""How most optimizers' states begin, and how they go on from round to round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ratchet.optimizer import OptimizerState, RunContext, TrialFacts


def first_state(context: RunContext) -> OptimizerState:
    """Begin with the baseline as the best."""
    return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)


def next_state(
    state: OptimizerState,
    trials: Sequence[TrialFacts],
    data: Mapping[str, JsonValue],
    notes: Mapping[str, JsonValue] | None = None,
) -> OptimizerState:
    """Go on from the candidate that the run has kept, if it kept one, with the algorithm's own data.

    Without `notes` of its own, what the algorithm goes on from is the best.
    """
    best = next((trial for trial in trials if trial.kept), None)
    best_id = best.candidate_id if best else state.best_candidate_id
    return OptimizerState(
        generation=state.generation + 1,
        best_candidate_id=best_id,
        best_score=best.score if best else state.best_score,
        algorithm_data=dict(data),
        notes=dict(selection("best", [best_id] if best_id else []) if notes is None else notes),
    )


def selection(method: str, survivors: Sequence[str], **more: JsonValue) -> dict[str, JsonValue]:
    """Note for the history how a round selected, and which candidates the next one starts from."""
    return {"selection_meta": {"method": method, "survivors": [*survivors], **more}}
