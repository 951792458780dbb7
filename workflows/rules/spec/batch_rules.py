"""How the trials of a run are handed to batches of providers: the target's requests, and those of judges."""

from __future__ import annotations

from workflows.model.spec.batch_options import BatchRules
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.request import OptimizationRequest


def batch_rules_of(request: OptimizationRequest) -> BatchRules | None:
    """What a trial knows of its batches; None where everything is asked at once."""
    execution = request.execution
    if execution.mode == "direct":
        return None
    rules = request.target.batch_rules(execution.batches, rest_directly=execution.mode == "auto")
    return None if rules is None else rules.model_copy(update={"judges": batched_judges(request)})


def batched_judges(request: OptimizationRequest) -> tuple[str, ...]:
    """The models that score and are asked in batches, by their fields in the spec."""
    if request.execution.mode == "direct" or not request.execution.batches.judges:
        return ()
    return tuple(place for place, scorer in placed_scorers(request.scorers) if scorer.is_judged)
