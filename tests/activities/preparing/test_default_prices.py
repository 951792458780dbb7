"""What a model costs that a spec gives no price: what its provider publishes, where it is the provider that is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from activities.preparing.default_prices import DefaultPrices, default_prices
from clients.checks.costs.estimate import estimate
from clients.checks.findings import check_content
from clients.checks.spec_file import SpecFile
from tests.support.allowed import lists_of
from tests.support.spec_building import request, spec
from workflows.model.spec.prices import LongRates, Price
from workflows.rules.decisions.call_bounds import bound_of
from workflows.rules.spec.check import check_request

OPUS = Price(input=15, output=75, cached_input=1.5, cache_write=18.75)


def chat(model: str, **more: Any) -> dict[str, Any]:
    return {"kind": "chat", "model": model, "messages": [{"role": "user", "content": "{{input.q}}"}], **more}


def found(model: str, environment: dict[str, str] | None = None, *, base_url: str | None = None, **more: Any) -> DefaultPrices:
    target = chat(model, **({} if base_url is None else {"base_url": base_url}))
    return default_prices(request(target=target, **more), lists_of(environment or {}))


@pytest.mark.parametrize(
    ("model", "environment", "base_url", "price"),
    [
        ("anthropic/claude-opus-4-1", {}, None, OPUS),
        ("anthropic/claude-opus-4-1", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, None, OPUS),
        ("gpt-5-mini", {}, None, Price(input=0.25, output=2, cached_input=0.025)),
        ("openai/gpt-5-mini", {}, None, Price(input=0.25, output=2, cached_input=0.025)),
        ("anthropic/claude-3.5-haiku", {}, "https://openrouter.ai/api/v1", Price(input=0.8, output=4)),
        (
            "google/gemini-2.5-pro",
            {},
            None,
            Price(
                input=1.25,
                output=10,
                cached_input=0.125,
                above=LongRates(tokens=200_000, input=2.5, output=15, cached_input=0.25),
            ),
        ),
        ("bedrock/amazon.nova-pro-v1:0", {}, None, Price(input=0.8, output=3.2, cached_input=0.2)),
        ("text-embedding-3-small", {}, None, Price(input=0.02, output=0)),
        # What answers at a place that nobody knows may be anything, whatever it is called.
        ("gpt-5-mini", {}, "http://127.0.0.1:8000/v1", None),
        ("gpt-5-mini", {"OPENAI_BASE_URL": "https://models.example/v1"}, None, None),
        ("anthropic/claude-opus-4-1", {}, "https://models.example/v1", None),
        ("anthropic/claude-of-tomorrow-99", {}, None, None),
    ],
)
def test_a_model_costs_what_is_published_where_it_is_asked(
    model: str, environment: dict[str, str], base_url: str | None, price: Price | None
) -> None:
    known = found(model, environment, base_url=base_url)
    assert known.prices == ({} if price is None else {model: price})
    assert (known.source is None) == (price is None)


def test_what_the_spec_says_wins_and_a_budget_of_money_needs_the_rest() -> None:
    own = {"gpt-5-mini": {"input": 1, "output": 1}}
    assert found("gpt-5-mini", prices=own).prices == {}
    for model, problems in (("gpt-5-mini", 0), ("gpt-of-tomorrow", 1)):
        asked = request(target=chat(model), budget={"cost": 1})
        told = check_request(default_prices(asked, lists_of({})).given_to(asked))
        assert len([problem for problem in told if "has no price" in problem]) == problems


async def test_the_check_estimates_with_them_and_the_runs_id_does_not_know_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    content = spec(target=chat("gpt-5-mini"), optimizer="none", stop={})
    checked = await check_content(SpecFile(Path("spec.yaml"), content, None), endpoints=False)
    costs = estimate(checked)
    assert costs.costs_money and costs.cost
    assert checked.default_prices.source is not None
    assert checked.known is not None and checked.known.prices == {}


def test_longer_requests_cost_what_longer_requests_cost() -> None:
    price = Price(input=3, output=15, above=LongRates(tokens=1000, input=6, output=20))
    assert bound_of(1000, 10, price).cost == pytest.approx((1000 * 3 + 10 * 15) / 1e6)
    assert bound_of(1001, 10, price).cost == pytest.approx((1001 * 6 + 10 * 20) / 1e6)


def test_what_is_kept_in_a_cache_has_its_price_and_old_hashes_stay() -> None:
    assert OPUS.cost(1000, 0, cached=600, kept=300) == pytest.approx((100 * 15 + 600 * 1.5 + 300 * 18.75) / 1e6)
    assert Price(input=1, output=2).model_dump(mode="json") == {"input": 1.0, "output": 2.0, "cached_input": None}


def test_nobody_who_needs_no_published_price_loads_them() -> None:
    code = "import sys, worker, activities.preparing.default_prices; sys.exit('genai_prices' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
