"""What caches of providers are expected to hold of the requests of a run, and to save."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clients.checks.costs.model_prices import AskedModel, ModelPrices
from ratchet._text.placeholders import Unfillable, as_text, fill
from workflows.model.run.amounts import NOTHING, Amount, total
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.request import OptimizationRequest
from workflows.model.spec.targets.chat import ChatStep, Message
from workflows.rules.overlay import Overlay
from workflows.rules.spec.prompt_factors import TOOLS, template_of
from workflows.rules.spec.shared_beginnings import SHORTEST_CHARACTERS, is_marked_for_caches, shared_messages, text_of_tools

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """How often a run asks."""

    calls: int
    turns: int
    """Requests of a call to the target."""
    trials: int
    """Each writes its beginnings into the cache once, as each has another candidate, and caches last for minutes."""


def kept_by_caches(request: OptimizationRequest, prices: ModelPrices, asked: Asked) -> Amount:
    """The tokens that a run reads from caches, and what it saves by them: less where writing them is dearer than reading them
    is cheap. Requests in batches are not marked: a provider works them off when and where it likes, and may write each anew."""
    return total([*_of_target(request, prices, asked), *_of_judges(request, prices, asked)])


def _of_target(request: OptimizationRequest, prices: ModelPrices, asked: Asked) -> Iterator[Amount]:
    for step in request.target.requests:
        yield _kept(prices.of_step(step), _characters_alike(step, request), asked.calls * asked.turns, asked.trials)


def _of_judges(request: OptimizationRequest, prices: ModelPrices, asked: Asked) -> Iterator[Amount]:
    """Judges are shown their rubric each time."""
    for place, scorer in placed_scorers(request.scorers):
        judge = scorer.asked_model
        if judge is not None and judge.parameters is not None:
            yield _kept(prices.at(f"{place}.model", judge.model), len(judge.shown), asked.calls, asked.trials)


def _kept(model: AskedModel, characters: int, requests: int, writes: int) -> Amount:
    provider, _, name = model.name.partition("/")
    if model.in_batches or characters < SHORTEST_CHARACTERS or not is_marked_for_caches(provider, name):
        return NOTHING
    tokens, price = characters // CHARACTERS_PER_TOKEN, model.price
    reads = max(requests - writes, 0)
    if price is None:
        return Amount(tokens=reads * tokens)
    cheaper = price.input - (price.input if price.cached_input is None else price.cached_input)
    dearer = (price.input if price.cache_write is None else price.cache_write) - price.input
    saved = reads * cheaper - min(writes, requests) * dearer
    return Amount(tokens=reads * tokens, cost=tokens * saved / 1_000_000)


def _characters_alike(step: ChatStep, request: OptimizationRequest) -> int:
    """How long the beginning is that all requests of a candidate share."""
    alike = step.messages[: shared_messages(step, Overlay("", request.baseline, template_of(request)))]
    try:
        texts = [as_text(fill(entry.content, request.baseline, {})) for entry in alike if isinstance(entry, Message)]
        tools = text_of_tools(fill(sent_tools(step, request), request.baseline, {}))
    except Unfillable:  # a prompt that is rendered only when the run goes on, or tools that a sample describes
        return 0
    return sum(map(len, texts)) + len(tools) if texts else 0


def sent_tools(step: ChatStep, request: OptimizationRequest) -> Any:
    """What is sent with a request of the tools that its model may call."""
    return [*request.target.described_tools] or step.parameters.get(TOOLS) or request.baseline.get(TOOLS)
