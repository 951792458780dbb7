"""What a run can cost before it is started: at worst, and as such runs go."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from clients.checks.costs.cached_beginnings import CHARACTERS_PER_TOKEN, Asked, kept_by_caches, sent_tools
from clients.checks.costs.model_prices import USER, ModelPrices
from clients.checks.findings import Checked, searched_samples
from ratchet._formats.canonical import canonical_json
from ratchet._text.placeholders import placeholders
from ratchet.prompts.template import PARAMETER
from workflows.model.run.amounts import NOTHING, Amount, total
from workflows.model.spec.design import Design
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.factors import TextFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.model.spec.targets.chat import ChatStep
from workflows.model.spec.targets.simulated_users import ModelUser
from workflows.rules.decisions.budget import CONFIRMATION_TRIALS, needs_of
from workflows.rules.decisions.call_bounds import LONGEST_ANSWER
from workflows.rules.spec.check import models_used
from workflows.rules.spec.shared_beginnings import text_of_tools

TOKENS_OF_AN_ANSWER = 250
"""Expected where nothing limits it to less."""

TURNS_OF_A_CONVERSATION = 4
"""Expected of an agent."""

SAMPLE = Amount(tokens=100)
LARGEST_SAMPLE = 2_000
"""Bytes of a sample that is not at hand, at worst."""

PROPOSAL_READ, PROPOSAL_WRITTEN, LONGEST_PROPOSAL_READ = 3_000, 1_000, 16_000
VERDICT_READ, VERDICT_WRITTEN = 1_000, 100
AROUND_A_USER = 600
"""Characters that a model is told about playing a user, beside who he is and what he wants."""

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
    worst = _capped(request, _of_run(_Run.of(checked, request, at_worst=True), calls, trials))
    run = _Run.of(checked, request, at_worst=False)
    expected = _of_run(run, calls, trials)
    if expected is not None and calls is not None and trials is not None:
        measured = trials + (CONFIRMATION_TRIALS if needs.confirmation_calls else 0)
        kept = kept_by_caches(request, run.prices, Asked(calls, run.turns, measured))
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


def _of_run(run: _Run, calls: int | None, trials: int | None) -> Amount | None:
    if calls is None or trials is None:
        return None
    of_calls = total([*_target(run), *_user(run), *_scoring(run)]).times(calls)
    return of_calls + total(_proposing(run)).times(max(trials - 1, 0))


@dataclass(frozen=True, slots=True)
class _Run:
    """What is estimated: the run at worst, or as is expected."""

    request: OptimizationRequest
    prices: ModelPrices
    at_worst: bool

    @classmethod
    def of(cls, checked: Checked, request: OptimizationRequest, *, at_worst: bool) -> _Run:
        return cls(request, ModelPrices(checked, request, at_worst=at_worst), at_worst)

    @property
    def turns(self) -> int:
        """How often a conversation asks the target's model."""
        most = self.request.target.most_turns
        return most if self.at_worst else min(most, TURNS_OF_A_CONVERSATION)

    @property
    def user(self) -> ModelUser | None:
        """Who replies to the target, where a model plays him."""
        return self.request.target.simulated_user

    @property
    def replies(self) -> int:
        """How often he is asked: between two turns of the target."""
        return 0 if self.user is None else min(self.user.replies, self.turns - 1)

    @property
    def reply(self) -> int:
        """Tokens of what he says each time."""
        return 0 if self.user is None else _longest(self.user.parameters, self.at_worst)


def _target(run: _Run) -> Iterator[Amount]:
    request, turns = run.request, run.turns
    stated, requests = request.target.stated, request.target.requests
    if not requests:
        yield NOTHING if stated is None else Amount(tokens=stated.tokens, cost=stated.cost)
        return
    shown = request.target.most_shown if run.at_worst else 0
    for asked in requests:
        read = _prompt(request, run.at_worst) // len(requests) + 1 + _tools(asked, request, run.at_worst)
        written = _answer(request, asked.parameters, run.at_worst)
        # Every turn is sent what was said before it: by the model, by its tools, and by its user.
        before = turns * (turns - 1) // 2 * written + (turns - 1) * shown
        before += sum(min(turn, run.replies) for turn in range(turns)) * run.reply
        yield run.prices.of_step(asked).amount(
            turns * read + before, turns * written, at_worst=run.at_worst, requests=turns * len(requests)
        )


def _user(run: _Run) -> Iterator[Amount]:
    """What a model takes that plays the user: each time it is sent who he is, and the conversation so far."""
    request, user, replies, turns = run.request, run.user, run.replies, run.turns
    if user is None or not replies:
        return
    texts = (user.goal, user.persona, user.stop)
    told = AROUND_A_USER + sum(len(text.encode()) if run.at_worst else len(text) for text in texts)
    told += len([text for text in texts if placeholders(text)]) * _sample(request, run.at_worst)
    opening = _prompt(request, True) if run.at_worst else _sample(request, False) // CHARACTERS_PER_TOKEN
    said = _answer(request, request.target.requests[0].parameters, run.at_worst)
    read = replies * (opening + (told if run.at_worst else told // CHARACTERS_PER_TOKEN))
    # Before his last reply the target has said all but its last turn; before each reply, he has said those before it.
    read += (replies * (turns - 1 - replies) + replies * (replies + 1) // 2) * said + replies * (replies - 1) // 2 * run.reply
    asked = run.prices.at(USER, user.model)
    yield asked.amount(read, replies * run.reply, at_worst=run.at_worst, requests=replies)


def _tools(asked: ChatStep, request: OptimizationRequest, at_worst: bool) -> int:
    """Tokens that the tools take which are sent with a request."""
    text = text_of_tools(sent_tools(asked, request))
    return len(text.encode()) if at_worst else len(text) // CHARACTERS_PER_TOKEN


def _scoring(run: _Run) -> Iterator[Amount]:
    for place, scorer in placed_scorers(run.request.scorers):
        asked = scorer.asked_model
        if asked is None:
            continue
        judge = run.prices.at(f"{place}.model", asked.model)
        if asked.parameters is None:
            yield judge.amount(2 * TOKENS_OF_AN_ANSWER, 0, at_worst=run.at_worst)
            continue
        read = VERDICT_READ + (len(asked.shown.encode()) if run.at_worst else len(asked.shown) // CHARACTERS_PER_TOKEN)
        written = _longest(asked.parameters, True) if run.at_worst else VERDICT_WRITTEN
        yield judge.amount(read, written, at_worst=run.at_worst)


def _proposing(run: _Run) -> Iterator[Amount]:
    proposer = getattr(run.request.optimizer, "proposer", None)
    if proposer is None or proposer.kind != "model":
        return
    read = LONGEST_PROPOSAL_READ if run.at_worst else PROPOSAL_READ
    written = _longest(proposer.parameters, True) if run.at_worst else PROPOSAL_WRITTEN
    yield run.prices.at("optimizer.proposer.model", proposer.model).amount(read, written, at_worst=run.at_worst)


def _prompt(request: OptimizationRequest, at_worst: bool) -> int:
    """Tokens that are sent with one sample. At worst a byte is a token, and texts have grown to their longest."""
    texts, sample = request.target.texts, _sample(request, at_worst)
    if not at_worst:
        values = [value for value in request.baseline.values() if isinstance(value, str)]
        characters = sum(map(len, texts)) + sum(map(len, values))
        return (characters + sample) // CHARACTERS_PER_TOKEN
    factors = [
        max(len(str(factor.value).encode()), (factor.max_length or 0) if isinstance(factor, TextFactor) else 0)
        for factor in request.configuration.values()
        if isinstance(factor.value, str)
    ]
    return sum(len(text.encode()) for text in texts) + sum(factors) + sample


def _sample(request: OptimizationRequest, at_worst: bool) -> int:
    """Characters of a sample; at worst, bytes of the largest."""
    sizes = [len(canonical_json(item.input).encode()) for item in request.dataset.items or []]
    if at_worst:
        return max(sizes, default=LARGEST_SAMPLE)
    return math.ceil(sum(sizes) / len(sizes)) if sizes else SAMPLE.tokens * CHARACTERS_PER_TOKEN


def _answer(request: OptimizationRequest, parameters: Mapping[str, Any], at_worst: bool) -> int:
    """Tokens of an answer of the target, to which factors are sent that are named like a parameter."""
    baseline = {name.removeprefix(PARAMETER): value for name, value in request.baseline.items()}
    return _longest({**{name: baseline.get(name) for name in _LIMITS}, **parameters}, at_worst)


def _longest(parameters: Mapping[str, Any], at_worst: bool) -> int:
    """Tokens of an answer to a request with these parameters."""
    given = [parameters.get(name) for name in _LIMITS]
    longest = next((limit for limit in given if isinstance(limit, int) and limit > 0), LONGEST_ANSWER)
    return longest if at_worst else min(longest, TOKENS_OF_AN_ANSWER)
