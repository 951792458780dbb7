"""How the trials of a run are handed to batches of providers: the target's requests, and those of judges."""

from __future__ import annotations

from datetime import timedelta

from workflows.model.spec.batch_options import TIME_OF_A_BATCH, BatchRules
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.check import models_used

LONGER_BATCHES = {"google": timedelta(hours=48)}
"""By the provider, whose batches take longer than those of others."""

_OF_TARGET = ("target.", "configuration.")
"""Where the models of targets are named: in a field, or by a factor."""


def batch_rules_of(request: OptimizationRequest) -> BatchRules | None:
    """What a trial knows of its batches; None where everything is asked at once."""
    execution = request.execution
    if execution.mode == "direct":
        return None
    rules = request.target.batch_rules(execution.batches, rest_directly=execution.mode == "auto")
    if rules is None:
        return None
    return rules.model_copy(update={"judges": batched_judges(request), "lasts": _longest(request)})


def batched_judges(request: OptimizationRequest) -> tuple[str, ...]:
    """The models that score and are asked in batches, by their fields in the spec."""
    if request.execution.mode == "direct" or not request.execution.batches.judges:
        return ()
    return tuple(place for place, scorer in placed_scorers(request.scorers) if scorer.is_judged)


def models_in_batches(request: OptimizationRequest) -> list[tuple[str, str]]:
    """The models of target and judges that are asked in batches, with the fields that name them."""
    if request.execution.mode == "direct":
        return []
    judges = {f"{place}.model" for place in batched_judges(request)}
    return [(where, model) for where, model in models_used(request) if where.startswith(_OF_TARGET) or where in judges]


def time_of_a_batch(provider: str) -> timedelta:
    """What a provider takes at most for a batch, by its own words."""
    return LONGER_BATCHES.get(provider, TIME_OF_A_BATCH)


def _longest(request: OptimizationRequest) -> timedelta:
    """What a batch of target or judges takes at most, by the names of their models: where a gateway has such a name,
    this is too long rather than too short."""
    asked = models_in_batches(request)
    return max((time_of_a_batch(model.partition("/")[0]) for _, model in asked), default=TIME_OF_A_BATCH)
