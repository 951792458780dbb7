"""What a run can cost before it is started: at worst, and as such runs go."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from clients.checks.findings import Checked, searched_samples
from ratchet._formats.canonical import canonical_json
from ratchet._text.placeholders import Unfillable, as_text, fill
from ratchet.prompts.template import PARAMETER
from workflows.model.run.amounts import NOTHING, Amount, total
from workflows.model.spec.design import Design
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.factors import TextFactor
from workflows.model.spec.prices import Price
from workflows.model.spec.request import OptimizationRequest
from workflows.model.spec.targets.chat import ChatStep, Message
from workflows.rules.decisions.budget import CONFIRMATION_TRIALS, needs_of
from workflows.rules.decisions.call_bounds import LONGEST_ANSWER, bound_of
from workflows.rules.overlay import Overlay
from workflows.rules.spec.batch_rules import batched_judges
from workflows.rules.spec.check import models_used
from workflows.rules.spec.prompt_factors import TOOLS, template_of
from workflows.rules.spec.shared_beginnings import SHORTEST_CHARACTERS, is_marked_for_caches, shared_messages, text_of_tools

CHARACTERS_PER_TOKEN = 4
TOKENS_OF_AN_ANSWER = 250
"""Expected where nothing limits it to less."""

TURNS_OF_A_CONVERSATION = 4
"""Expected of an agent."""

SAMPLE = Amount(tokens=100)
LARGEST_SAMPLE = 2_000
"""Bytes of a sample that is not at hand, at worst."""

PROPOSAL_READ, PROPOSAL_WRITTEN, LONGEST_PROPOSAL_READ = 3_000, 1_000, 16_000
VERDICT_READ, VERDICT_WRITTEN = 1_000, 100
_LIMITS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True)
class Estimate:
    """Worst cases, and what is expected of a run that goes to its last round; None where nothing in the spec bounds it."""

    samples_per_trial: int
    """0 when the data is not known here."""
    calls_per_trial: int
    trials: int | None
    """Of the search; the confirmation comes on top."""
    calls: int | None
    """Target calls of the search and of the confirmation."""
    tokens: int | None
    """At worst. None too when the target is no model and does not say what it takes."""
    cost: float | None
    """At worst, never more than budget.cost. None when nothing is known to cost anything, or when it is unbounded."""
    expected_tokens: int | None
    expected_cost: float | None
    expected_cached_tokens: int
    """Of those expected, the ones that a provider's cache holds, since many requests begin with them."""
    expected_saving: float
    """What these cost less; the expected cost has it taken off."""
    costs_money: bool
    """Models with a price are called, or the target states what it costs."""

    @property
    def is_unbounded(self) -> bool:
        """It costs money, and nobody knows how much at most."""
        return self.costs_money and self.cost is None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def estimate(checked: Checked) -> Estimate:
    """The most that the run may call and take, and what is expected."""
    request = checked.priced
    assert request is not None
    samples = searched_samples(checked)
    design = _largest_design(request, samples)
    calls_per_trial = design.samples * design.replicates
    needs = needs_of(request, design, checked.splits.get("test", 0))
    trials = _most_trials(request, calls_per_trial, needs.confirmation_calls)
    more_at_first = max(needs.opening_calls - calls_per_trial, 0)
    calls = None if trials is None or not samples else trials * calls_per_trial + more_at_first + needs.confirmation_calls
    if request.budget.samples:
        calls = min(calls, request.budget.samples) if calls is not None else request.budget.samples
    money = _costs_money(request)
    found = Estimate(samples, calls_per_trial, trials, calls, None, None, None, None, 0, 0.0, money)
    worst = _capped(request, _of_run(request, calls, trials, at_worst=True))
    expected = _of_run(request, calls, trials, at_worst=False)
    if expected is not None and calls is not None:
        kept = total([*_kept_of_target(request), *_kept_of_judges(request)]).times(calls)
        found = replace(found, expected_cached_tokens=kept.tokens, expected_saving=kept.cost if money else 0.0)
        expected = replace(expected, cost=expected.cost - kept.cost)
    expected = _capped(request, expected)
    return replace(
        found,
        tokens=None if worst is None else worst.tokens or None,
        cost=None if worst is None or not money else worst.cost,
        expected_tokens=None if expected is None else expected.tokens or None,
        expected_cost=None if expected is None or not money else expected.cost,
    )


def _largest_design(request: OptimizationRequest, samples: int) -> Design:
    """What a trial measures at most, where that is settled only when the noise is known."""
    design, noise = request.design(samples), request.noise_first
    if request.replicates != "auto" or noise is None:
        return design
    baseline = request.judgement.baseline_replicates or noise.most_replicates
    return Design(samples=samples, replicates=noise.most_replicates, baseline_replicates=baseline)


def _most_trials(request: OptimizationRequest, calls_per_trial: int, confirmation: int) -> int | None:
    most = request.optimizer.most_trials(request.stop)
    bounds = [] if most is None else [most]
    if request.budget.trials:
        bounds.append(request.budget.trials - (CONFIRMATION_TRIALS if confirmation else 0))
    if request.budget.samples and calls_per_trial:
        bounds.append((request.budget.samples - confirmation) // calls_per_trial)
    return max(min(bounds), 1) if bounds else None


def _costs_money(request: OptimizationRequest) -> bool:
    prices = [request.prices[model] for _, model in models_used(request) if model in request.prices]
    stated = request.target.stated
    return any(price.input or price.output for price in prices) or bool(stated and stated.cost)


def _capped(request: OptimizationRequest, amount: Amount | None) -> Amount | None:
    """Never more than the budget; where only the budget bounds the run, all of it."""
    budget = request.budget
    if amount is None:
        return Amount(tokens=budget.tokens, cost=budget.cost) if budget.cost else None
    tokens = min(amount.tokens, budget.tokens) if budget.tokens else amount.tokens
    return Amount(tokens=tokens, cost=min(amount.cost, budget.cost) if budget.cost else amount.cost)


def _of_run(request: OptimizationRequest, calls: int | None, trials: int | None, *, at_worst: bool) -> Amount | None:
    if calls is None or trials is None:
        return None
    of_calls = total([*_target(request, at_worst), *_scoring(request, at_worst)]).times(calls)
    return of_calls + total(_proposing(request, at_worst)).times(max(trials - 1, 0))


def _target(request: OptimizationRequest, at_worst: bool) -> Iterator[Amount]:
    stated, requests = request.target.stated, request.target.requests
    if not requests:
        yield NOTHING if stated is None else Amount(tokens=stated.tokens, cost=stated.cost)
        return
    price, turns = _price_of_target(request, at_worst), _turns(request, at_worst)
    for asked in requests:
        read = _prompt(request, at_worst) // len(requests) + 1 + _tools(asked, request, at_worst)
        written = _answer(request, asked.parameters, at_worst)
        # Every turn is sent what was said before it.
        yield bound_of(turns * read + turns * (turns - 1) // 2 * written, turns * written, price)


def _price_of_target(request: OptimizationRequest, at_worst: bool) -> Price | None:
    price, mode = _dearest(request, ("target", "configuration")), request.execution.mode
    in_batches = mode == "batch" or (mode == "auto" and not at_worst)
    return price.in_batches if price is not None and in_batches else price


def _turns(request: OptimizationRequest, at_worst: bool) -> int:
    most = request.target.most_turns
    return most if at_worst else min(most, TURNS_OF_A_CONVERSATION)


def _kept_of_target(request: OptimizationRequest) -> Iterator[Amount]:
    """The tokens of a call that a provider's cache holds, and what they cost less."""
    price, turns = _price_of_target(request, at_worst=False), _turns(request, at_worst=False)
    for asked in request.target.requests:
        yield _kept(asked.model or "", turns, _characters_alike(asked, request), price)


def _kept_of_judges(request: OptimizationRequest) -> Iterator[Amount]:
    """The same of judges, which are shown their rubric each time."""
    for _, scorer in placed_scorers(request.scorers):
        asked = scorer.asked_model
        if asked is not None and asked.parameters is not None:
            yield _kept(asked.model, 1, len(asked.shown), request.prices.get(asked.model))


def _kept(name: str, times: int, characters: int, price: Price | None) -> Amount:
    provider, _, model = name.partition("/")
    if characters < SHORTEST_CHARACTERS or not is_marked_for_caches(provider, model):
        return NOTHING
    tokens = times * (characters // CHARACTERS_PER_TOKEN)
    cheaper = 0.0 if price is None or price.cached_input is None else price.input - price.cached_input
    return Amount(tokens=tokens, cost=tokens * cheaper / 1_000_000)


def _characters_alike(asked: ChatStep, request: OptimizationRequest) -> int:
    """How long the beginning is that all requests of a candidate share."""
    alike = asked.messages[: shared_messages(asked, Overlay("", request.baseline, template_of(request)))]
    try:
        texts = [as_text(fill(entry.content, request.baseline, {})) for entry in alike if isinstance(entry, Message)]
        tools = text_of_tools(fill(_sent_tools(asked, request), request.baseline, {}))
    except Unfillable:  # a prompt that is rendered only when the run goes on, or tools that a sample describes
        return 0
    return sum(map(len, texts)) + len(tools) if texts else 0


def _sent_tools(asked: ChatStep, request: OptimizationRequest) -> Any:
    """What is sent with a request of the tools that its model may call."""
    return [*request.target.described_tools] or asked.parameters.get(TOOLS) or request.baseline.get(TOOLS)


def _tools(asked: ChatStep, request: OptimizationRequest, at_worst: bool) -> int:
    """Tokens that they take."""
    text = text_of_tools(_sent_tools(asked, request))
    return len(text.encode()) if at_worst else len(text) // CHARACTERS_PER_TOKEN


def _scoring(request: OptimizationRequest, at_worst: bool) -> Iterator[Amount]:
    in_batches = batched_judges(request) if request.execution.mode == "batch" or not at_worst else ()
    for place, scorer in placed_scorers(request.scorers):
        asked = scorer.asked_model
        if asked is None:
            continue
        price = request.prices.get(asked.model)
        if price is not None and place in in_batches:
            price = price.in_batches
        if asked.parameters is None:
            yield bound_of(2 * TOKENS_OF_AN_ANSWER, 0, price)
            continue
        read = VERDICT_READ + (len(asked.shown.encode()) if at_worst else len(asked.shown) // CHARACTERS_PER_TOKEN)
        written = _answer(request, asked.parameters, at_worst=True) if at_worst else VERDICT_WRITTEN
        yield bound_of(read, written, price)


def _proposing(request: OptimizationRequest, at_worst: bool) -> Iterator[Amount]:
    proposer = getattr(request.optimizer, "proposer", None)
    if proposer is None or proposer.kind != "model":
        return
    read = LONGEST_PROPOSAL_READ if at_worst else PROPOSAL_READ
    written = _answer(request, proposer.parameters, at_worst=True) if at_worst else PROPOSAL_WRITTEN
    yield bound_of(read, written, request.prices.get(proposer.model))


def _dearest(request: OptimizationRequest, fields: tuple[str, ...]) -> Price | None:
    """Of the models that the target may choose."""
    models = [model for where, model in models_used(request) if where.startswith(fields)]
    priced = [request.prices[model] for model in models if model in request.prices]
    return max(priced, key=lambda price: (price.output, price.input), default=None)


def _prompt(request: OptimizationRequest, at_worst: bool) -> int:
    """Tokens that are sent with one sample. At worst a byte is a token, and texts have grown to their longest."""
    texts = request.target.texts
    items = request.dataset.items or []
    sizes = [len(canonical_json(item.input).encode()) for item in items]
    if not at_worst:
        values = [value for value in request.baseline.values() if isinstance(value, str)]
        characters = sum(map(len, texts)) + sum(map(len, values))
        sample = math.ceil(sum(sizes) / len(sizes)) if sizes else SAMPLE.tokens * CHARACTERS_PER_TOKEN
        return (characters + sample) // CHARACTERS_PER_TOKEN
    factors = [
        max(len(str(factor.value).encode()), (factor.max_length or 0) if isinstance(factor, TextFactor) else 0)
        for factor in request.configuration.values()
        if isinstance(factor.value, str)
    ]
    return sum(len(text.encode()) for text in texts) + sum(factors) + max(sizes, default=LARGEST_SAMPLE)


def _answer(request: OptimizationRequest, parameters: Mapping[str, Any], at_worst: bool) -> int:
    baseline = {name.removeprefix(PARAMETER): value for name, value in request.baseline.items()}
    given = [parameters.get(name, baseline.get(name)) for name in _LIMITS]
    longest = next((limit for limit in given if isinstance(limit, int) and limit > 0), LONGEST_ANSWER)
    return longest if at_worst else min(longest, TOKENS_OF_AN_ANSWER)
