"""Single steps from the best: one thing that is no number, and that counts."""

from __future__ import annotations

from typing import Any

from tests.suggesting.searching import Searching, choice, flag, number, order
from workflows.rules.suggesting.neighbour import TOLD_FROM, Neighbour
from workflows.rules.suggesting.space import Space
from workflows.rules.suggesting.told import told_of

FACTORS: dict[str, Any] = {
    "x": number(0.9),
    "model": choice("a", "b", "c"),
    "order": order(1, 2, 3),
    "strict": flag(when={"model": ["c"]}),
}


def _neighbour(factors: dict[str, Any], trials: int) -> tuple[Neighbour, Searching]:
    search = Searching(factors, lambda values: values["x"] + (values.get("model") == "c"), "random").go_on(trials)
    return Neighbour(Space.of(factors, {}), told_of(search.trials, Space.of(factors, {}), maximize=False), 3), search


def test_one_thing_differs_from_one_of_the_five_best() -> None:
    neighbour, search = _neighbour(FACTORS, 40)
    best = [trial.configuration for trial in sorted(search.trials, key=lambda trial: trial.score or 0.0)[:5]]
    for _ in range(50):
        drawn = neighbour.draw()
        changed = [{name for name in FACTORS if drawn[name] != start[name]} for start in best]
        assert {"model"} in changed or {"order"} in changed


def test_numbers_alone_have_no_neighbours_and_few_trials_no_best() -> None:
    assert not _neighbour({"x": number(0.9)}, 40)[0].usable
    assert not _neighbour(FACTORS, TOLD_FROM - 1)[0].usable
    assert _neighbour(FACTORS, TOLD_FROM)[0].usable


def test_mixed_spaces_are_searched_by_all_in_turns() -> None:
    found = Searching(FACTORS, lambda values: values["x"] + (values["model"] == "a"), "auto").go_on(80)
    assert set(found.suggested_by) == {"tpe", "model", "neighbour"}
