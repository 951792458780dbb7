"""What a run can cost at most, as far as its spec tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from clients.commands.findings import Checked, searched_samples
from workflows.model.request import OptimizationRequest
from workflows.model.target import ChatTarget
from workflows.rules.canonical import canonical_json
from workflows.rules.spec_check import models_used

CHARACTERS_PER_TOKEN = 4
TOKENS_OF_AN_ANSWER = 250
"""Assumed where neither a factor nor a parameter limits it."""
TOKENS_OF_A_SAMPLE = 100
TOKENS_TO_A_PROPOSER = 3000
TOKENS_OF_A_PROPOSAL = 1000
TOKENS_TO_A_JUDGE = 1000
TOKENS_OF_A_VERDICT = 100
_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True)
class Estimate:
    """Worst cases; None means that nothing in the spec bounds it."""

    samples_per_trial: int
    calls_per_trial: int
    trials: int | None
    calls: int | None
    """Target calls of the search and of the confirmation."""
    cost: float | None
    """A rough guess from the lengths of the texts, never more than budget.cost."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def estimate(checked: Checked) -> Estimate:
    """The most that the run may call and, where prices are given, roughly what that costs."""
    request = checked.request
    assert request is not None
    samples = searched_samples(checked)
    calls_per_trial = samples * request.replicates
    trials = _most_trials(request, calls_per_trial)
    confirmation = 2 * checked.splits.get("test", 0) * request.replicates
    calls = None if trials is None else trials * calls_per_trial + confirmation
    if request.budget.samples:
        calls = min(calls, request.budget.samples) if calls is not None else request.budget.samples
    return Estimate(samples, calls_per_trial, trials, calls, _cost(request, calls, trials))


def _most_trials(request: OptimizationRequest, calls_per_trial: int) -> int | None:
    bounds: list[int] = []
    if request.stop.max_rounds:
        bounds.append(1 + request.stop.max_rounds * request.optimizer.candidates_per_round)
    if request.budget.trials:
        bounds.append(request.budget.trials)
    if request.budget.samples and calls_per_trial:
        bounds.append(max(request.budget.samples // calls_per_trial, 1))
    return min(bounds) if bounds else None


def _cost(request: OptimizationRequest, calls: int | None, trials: int | None) -> float | None:
    priced = [(where, request.prices[model]) for where, model in models_used(request) if model in request.prices]
    if not priced:
        return None
    limit = request.budget.cost or None
    if calls is None or trials is None:
        return limit
    total = 0.0
    for where, price in _dearest(priced):
        if where.startswith("optimizer"):
            read, written, times = TOKENS_TO_A_PROPOSER, TOKENS_OF_A_PROPOSAL, max(trials - 1, 0)
        elif where.startswith("scorers"):
            read, written, times = TOKENS_TO_A_JUDGE, TOKENS_OF_A_VERDICT, calls
        else:
            read, written, times = _prompt_tokens(request), _answer_tokens(request), calls
        total += times * (read * price.input + written * price.output) / 1_000_000
    return min(total, limit) if limit else total


def _dearest(priced: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """One price for the target (the dearest it may choose), one for each scorer that asks a model, one for the proposer."""
    chosen: dict[str, tuple[str, Any]] = {}
    for where, price in priced:
        asking = where if where.startswith(("optimizer", "scorers")) else "target"
        if asking not in chosen or price.output > chosen[asking][1].output:
            chosen[asking] = (where, price)
    return list(chosen.values())


def _prompt_tokens(request: OptimizationRequest) -> int:
    texts = list(request.target.texts) if isinstance(request.target, ChatTarget) else []
    texts += [value for value in request.baseline.values() if isinstance(value, str)]
    items = request.dataset.items or []
    sample = sum(len(canonical_json(item.input)) for item in items) // len(items) if items else 0
    characters = sum(len(text) for text in texts) + (sample or TOKENS_OF_A_SAMPLE * CHARACTERS_PER_TOKEN)
    return characters // CHARACTERS_PER_TOKEN


def _answer_tokens(request: OptimizationRequest) -> int:
    target = request.target
    if not isinstance(target, ChatTarget):
        return _longest_answer(request, {})
    return sum(_longest_answer(request, step.parameters) for step in target.requests)


def _longest_answer(request: OptimizationRequest, parameters: Mapping[str, Any]) -> int:
    given = [parameters.get(name, request.baseline.get(name)) for name in _LIMITS]
    return next((limit for limit in given if isinstance(limit, int) and limit > 0), TOKENS_OF_AN_ANSWER)
