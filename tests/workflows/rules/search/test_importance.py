"""Which factors mattered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.searches import Searching, choice, integer, number, order
from workflows.model.activities.computation import Stored
from workflows.rules.search.importance import importances


def _shares(search: Searching) -> dict[str, float]:
    found: Any = importances(Stored(trials=search.trials), search.arguments(0))
    return {one["factor"]: one["share"] for one in found["factors"]}


def test_what_decides_the_score_matters_most() -> None:
    factors = {"weighty": number(0.9), "light": number(0.9), "idle": choice("a", "b"), "turns": order(1, 2, 3)}
    shares = _shares(Searching(factors, lambda values: values["weighty"] + 0.05 * values["light"], "random").go_on(120))
    assert next(iter(shares)) == "weighty"
    assert shares["weighty"] > 0.6
    assert sum(shares.values()) == 1 or abs(sum(shares.values()) - 1) < 1e-9


def test_orders_and_choices_can_matter_too() -> None:
    factors = {"turns": order("x", "y", "z"), "model": choice("a", "b", "c"), "idle": integer(3, 0, 9)}
    measure = lambda values: values["turns"].index("x") + 5 * (values["model"] == "a")  # noqa: E731
    shares = _shares(Searching(factors, measure, "random").go_on(120))
    assert set(list(shares)[:2]) == {"turns", "model"}


def test_what_a_search_has_looked_at_most_does_not_hide_what_matters() -> None:
    """Once the better retriever is found, all trials have it; it still matters most."""

    def loss(values: Mapping[str, Any]) -> float:
        return 0.35 * float(values["retriever"] != "hybrid") + 0.3 * abs(float(values["temperature"]) - 0.2)

    factors = {"temperature": number(0.7), "retriever": choice("none", "bm25", "hybrid")}
    assert next(iter(_shares(Searching(factors, loss).go_on(60)))) == "retriever"


def test_a_factor_that_rarely_counts_is_no_trouble() -> None:
    factors = {"use": choice("no", "never", "yes"), "how": number(0.5, when={"use": ["yes"]})}
    shares = _shares(Searching(factors, lambda values: float(values["use"] == "yes") + values["how"], "tpe").go_on(40))
    assert set(shares) == {"use", "how"}


def test_nothing_is_claimed_of_few_trials_or_of_equal_scores() -> None:
    assert _shares(Searching({"x": number(0.5)}, lambda values: values["x"], "random").go_on(9)) == {}
    assert _shares(Searching({"x": number(0.5)}, lambda values: 1.0, "random").go_on(40)) == {}
