"""Suggestions: nothing twice, nothing lost, everything from what is stored, and good ones."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from tests.support.searches import Searching, choice, flag, integer, number, order
from workflows.model.activities.computation import Stored
from workflows.rules.search.observations import BEST, NEWEST, bounded
from workflows.rules.search.suggestion import suggested

NUMBERS = {f"x{place}": number(0.9) for place in range(3)}
MIXED = {
    "model": choice("small", "large", "huge"),
    "temperature": number(0.9),
    "top_k": integer(3, 1, 50, when={"model": ["large"]}),
    "steps": order("plan", "act", "check"),
    "strict": flag(),
}


def bowl(configuration: Mapping[str, Any]) -> float:
    return float(sum((configuration[f"x{place}"] - 0.3) ** 2 * (place + 1) for place in range(3)))


def kitchen(configuration: Mapping[str, Any]) -> float:
    """Best with the large model, cold, with a dozen documents, acting first."""
    loss = {"small": 0.6, "large": 0.0, "huge": 0.3}[configuration["model"]]
    loss += abs(float(configuration["temperature"]) - 0.2) + 0.2 * configuration["strict"]
    loss += 0.2 * list(configuration["steps"]).index("act")
    return float(loss + (abs(configuration["top_k"] - 12) / 50 if configuration["model"] == "large" else 0.3))


SAMPLERS = ("auto", "tpe", "random")


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("batch", [1, 4])
def test_nothing_is_suggested_twice(sampler: str, batch: int) -> None:
    found = Searching(MIXED, kitchen, sampler).go_on(80, batch)
    assert len(found.trials) == 80
    assert len(set(found.hashes)) == 80


@pytest.mark.parametrize("sampler", [*SAMPLERS, "grid"])
def test_the_same_store_and_seed_give_the_same_suggestions(sampler: str) -> None:
    factors = {name: {**factor, "step": 0.1} for name, factor in NUMBERS.items()}
    first, second = (Searching(factors, bowl, sampler).go_on(30) for _ in range(2))
    assert first.hashes == second.hashes
    other = Searching(factors, bowl, sampler, seed=8).go_on(30)
    assert other.hashes != first.hashes


def test_nothing_is_remembered_but_what_is_stored() -> None:
    """A search that is interrupted after any batch, and goes on elsewhere, suggests what it would have suggested."""
    whole = Searching(NUMBERS, bowl).go_on(60)
    resumed = Searching(NUMBERS, bowl)
    while len(resumed.trials) < 60:
        resumed = replace(resumed, trials=list(resumed.trials))
        resumed.trials = resumed.trials[: 1 + 4 * resumed.batches]
        resumed.go_on(min(len(resumed.trials) + 4, 60))
    assert resumed.hashes == whole.hashes


@pytest.mark.parametrize("sampler", [*SAMPLERS, "grid"])
def test_a_finite_space_is_tried_to_its_end_and_then_it_is_exhausted(sampler: str) -> None:
    factors: dict[str, Any] = {"a": integer(0, 0, 3), "b": order("x", "y", "z")}
    found = Searching(factors, lambda values: values["a"], sampler).go_on(100)
    assert found.exhausted
    assert len(found.trials) == len(set(found.hashes)) == 4 * 6


def test_combinations_that_differ_in_nothing_that_counts_are_tried_once() -> None:
    factors = {"use": flag(), "how": integer(1, 1, 5, when={"use": [True]})}
    found = Searching(factors, lambda values: values["how"], "grid").go_on(100)
    assert len(found.trials) == 1 + 5


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(("factors", "measure"), [(NUMBERS, bowl), (MIXED, kitchen)], ids=["numbers", "mixed"])
def test_it_finds_better_values_than_chance(factors: Any, measure: Any, batch: int) -> None:
    def best(sampler: str) -> float:
        return median(min(Searching(factors, measure, sampler, seed=seed).go_on(60, batch).scores) for seed in range(5))

    assert best("auto") < 0.6 * best("random")


def test_maximizing_is_minimizing_upside_down() -> None:
    down = Searching(NUMBERS, bowl).go_on(60)
    up = Searching(NUMBERS, lambda values: -bowl(values), maximize=True).go_on(60)
    assert up.hashes == down.hashes


def test_numbers_are_modelled_once_there_is_enough_to_model() -> None:
    found = Searching(NUMBERS, bowl).go_on(60, batch=1)
    assert found.suggested_by[:29] == ["tpe"] * 29
    assert set(found.suggested_by[29:]) == {"model"}


def test_where_there_is_more_than_numbers_improvements_are_promised_by_a_process() -> None:
    found = Searching(MIXED, kitchen).go_on(40, batch=1)
    assert found.suggested_by == ["random"] * 11 + ["process"] * 28


def test_the_best_at_the_end_of_a_range_is_not_suggested_for_ever() -> None:
    """Where nothing else is promising, something else is tried all the same."""
    found = Searching({"x": number(0.5), "loud": flag()}, lambda values: values["x"] + values["loud"]).go_on(60)
    assert len(set(found.hashes)) == 60
    assert min(found.scores) == 0


def test_failed_trials_are_avoided() -> None:
    """Half of the range fails; the search stays out of it more and more."""

    def fragile(values: Mapping[str, Any]) -> float | None:
        return None if values["x0"] < 0.5 and values["x0"] != 0.9 else bowl(values)

    found = Searching(NUMBERS, fragile).go_on(80)
    failed = [trial.status == "failed" for trial in found.trials]
    assert sum(failed[:40]) > sum(failed[40:])
    assert min(found.scores) < 0.08


def test_a_batch_is_spread() -> None:
    """Four suggestions made at once, without knowing of each other's results, are no four copies of one."""
    found = Searching(NUMBERS, bowl).go_on(60)
    batch = found.suggest(4)
    apart = [
        max(abs(one[name] - other[name]) for name in NUMBERS)  # type: ignore[operator]
        for one, other in pairwise(batch)
    ]
    assert min(apart) > 1e-3


def test_what_is_held_is_not_searched_but_tells_configurations_apart() -> None:
    found = Searching({"x": integer(0, 0, 2)}, lambda values: values["x"], "grid", held={"prompt": "a"}).go_on(3)
    with_other_text = replace(found.trials[0], candidate_id="other", configuration={"prompt": "b", "x": 0})
    stored = Stored(trials=[*found.trials, with_other_text])
    answer: Any = suggested(stored, {**found.arguments(3), "base": "other", "cursor": 0})
    assert len(answer["suggestions"]) == 3


def test_earlier_runs_are_learned_from() -> None:
    earlier = Searching(NUMBERS, bowl, seed=1).go_on(60).trials
    cold = median(min(Searching(NUMBERS, bowl, seed=seed).go_on(20).scores) for seed in range(5))
    warm = median(min(Searching(NUMBERS, bowl, seed=seed, earlier=earlier).go_on(20).scores) for seed in range(5))
    assert warm < cold / 3


def test_of_earlier_runs_what_does_not_fit_is_left_out() -> None:
    earlier = Searching({"x0": number(5, 0, 10), "other": flag()}, lambda values: values["x0"]).go_on(20).trials
    fitting = [trial for trial in earlier if 0 <= trial.configuration["x0"] <= 1]  # type: ignore[operator]
    assert 0 < len(fitting) < 20
    with_all, with_some = (Searching(NUMBERS, bowl, earlier=[*known]).go_on(40) for known in (earlier, fitting))
    assert with_all.hashes == with_some.hashes


def test_a_bounded_part_is_told_and_it_has_the_best() -> None:
    shuffled = random.Random(3).sample(range(1000), 1000)
    ranks = iter([500, *shuffled])
    trials = Searching(NUMBERS, lambda values: float(next(ranks)), "random").go_on(900).trials
    few = bounded(trials, maximize=False)
    assert len(few) <= 1 + BEST + NEWEST
    assert few[0] == trials[0]
    assert few[-NEWEST:] == trials[-NEWEST:]
    assert {trial.candidate_id for trial in few} >= {
        trial.candidate_id for trial in sorted(trials, key=lambda trial: trial.score or 0.0)[:BEST]
    }
