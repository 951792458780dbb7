"""Prices of models that a spec gives none: those that providers publish, as genai-prices keeps them, without any network.

What a run found when it began holds to its end. Loading them takes most of a second and 70 MB, so that only a process does
that needs one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from activities.endpoints.endpoint_policy import ModelPlace, OperatorLists, address_of, is_loopback
from workflows.model.spec.prices import LongRates, Price
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.check import models_used, stated_model_url

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

PACKAGE: Final = "genai-prices"
MOST_MODELS: Final = 200
"""Of one spec that are looked up; whoever names more gives their prices."""


@dataclass(frozen=True)
class DefaultPrices:
    """What is known of the models that a spec gives no price."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    source: str | None = None
    """Who says so, and as of when; None where nothing is known."""

    def given_to(self, request: OptimizationRequest) -> OptimizationRequest:
        """The request with these prices beside its own, which win."""
        if not self.prices:
            return request
        return request.model_copy(update={"prices": {**self.prices, **request.prices}})


NO_PRICES: Final = DefaultPrices()


def default_prices(request: OptimizationRequest, lists: OperatorLists) -> DefaultPrices:
    """Look up what models cost that the spec gives no price, where the workers of these lists ask them.

    A model of a name that everybody knows, at a place that nobody knows, has no price: it may be anything.
    """
    places: dict[str, set[ModelPlace]] = {}
    for where, model in models_used(request)[:MOST_MODELS]:
        if model not in request.prices and "{{" not in model:
            places.setdefault(model, set()).add(lists.model_place(model, stated_model_url(request, where)))
    today = datetime.now(UTC)
    found: dict[str, Price] = {}
    for model, asked in places.items():
        prices = [_price(place, place.name != model, today) for place in asked]
        if prices[0] is not None and all(price == prices[0] for price in prices):
            found[model] = prices[0]
    if not found:
        return NO_PRICES
    return DefaultPrices(found, f"{PACKAGE} {version(PACKAGE)}, as of {today.date()}: {', '.join(sorted(found))}")


def _price(place: ModelPlace, is_the_providers: bool, today: datetime) -> Price | None:
    """What a model costs at a place. Where a prefix named the provider, it counts, wherever its address leads."""
    if not is_the_providers and is_loopback(address_of(place.url)[0]):
        return None
    provider = place.provider if is_the_providers else None
    known = _known(place.name, provider, None if provider else place.url)
    return None if known is None else _read(known.get_prices(today))


@lru_cache(maxsize=1024)
def _known(model: str, provider: str | None, url: str | None) -> Any:
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(model, None, provider, url)[1]
    except LookupError:
        return None


def _read(price: ModelPrice) -> Price | None:
    """A price as a spec would give it. Where longer requests cost more, those above the first step cost what the last says."""
    named = {
        "input": price.input_mtok,
        "output": price.output_mtok,
        "cached_input": price.cache_read_mtok,
        "cache_write": price.cache_write_mtok,
    }
    if named["input"] is None:
        return None
    named["output"] = named["output"] or Decimal(0)  # embeddings write nothing
    base = {name: _base(value) for name, value in named.items() if value is not None}
    starts = sorted({tier.start for value in named.values() for tier in _tiers(value)})
    if not starts:
        return Price(**base)
    top = {name: _top(value) for name, value in named.items() if value is not None}
    return Price(**base, above=LongRates(tokens=starts[0], **top))


def _tiers(value: Any) -> list[Any]:
    return list(getattr(value, "tiers", ()))


def _base(value: Any) -> float:
    return float(getattr(value, "base", value))


def _top(value: Any) -> float:
    tiers = _tiers(value)
    return float(tiers[-1].price) if tiers else _base(value)
