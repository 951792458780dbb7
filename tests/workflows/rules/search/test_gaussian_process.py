"""Rows and what a Gaussian process expects of them: values there and back, steps to neighbours, and factors that matter."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from tests.support.searches import choice, flag, integer, number, order
from workflows.rules.search.configuration_rows import Rows
from workflows.rules.search.expected_improvement import _log_improvement
from workflows.rules.search.gaussian_process import Process
from workflows.rules.search.space import Space

FACTORS: dict[str, Any] = {
    "heat": number(20.0, 10, 30),
    "rate": number(0.1, 0.001, 1, scale="log"),
    "top_k": integer(3, 1, 9, step=2, when={"model": ["b", "c"]}),
    "model": choice("a", "b", "c"),
    "strict": flag(),
    "steps": order("plan", "act", "check"),
    "only": choice("this"),
}
SPACE = Space.of(FACTORS, {})
ROWS = Rows(SPACE)


def _anywhere(count: int, seed: int = 1) -> Any:
    return ROWS.anywhere(count, np.random.default_rng(seed))


def test_a_row_is_a_configuration_that_may_be_tried_and_back() -> None:
    rows = _anywhere(200)
    for row in rows:
        values = ROWS.values(row)
        assert SPACE.fits(values) and SPACE.settled(values) == values
        assert ROWS.of(values) == pytest.approx(row, abs=1e-8)
    seen = {name: {str(ROWS.values(row)[name]) for row in rows} for name in ("top_k", "model", "strict", "steps")}
    assert seen == {
        "top_k": {"1", "3", "5", "7", "9"},
        "model": {"a", "b", "c"},
        "strict": {"True", "False"},
        "steps": {str(list(one)) for one in permutations(["plan", "act", "check"])},
    }


def test_a_step_moves_one_thing_that_counts_or_some() -> None:
    before = _anywhere(400)
    after = ROWS.stepped(before, np.random.default_rng(2))
    moved = []
    for one, other in zip(before, after, strict=True):
        first, second = ROWS.values(one), ROWS.values(other)
        moved.append({name for name in FACTORS if first[name] != second[name]} - {"only"})
        assert SPACE.fits(second) and SPACE.settled(second) == second
    alone = [names for names in moved if len(names) == 1]
    assert 100 < len(alone) < 350
    assert {name for names in alone for name in names} == set(FACTORS) - {"only"}
    assert any(len(names) > 2 for names in moved)


def test_what_was_measured_is_expected_and_certain_and_other_things_are_not() -> None:
    rows = _anywhere(60)
    losses = np.array([float(row[0]) + (row[3] == 2) for row in rows])
    process = Process(ROWS.apart(rows), losses, np.arange(60))
    expected, deviation = process.expected(ROWS.apart(rows))
    assert expected == pytest.approx(losses, abs=0.05)
    unseen, unsure = process.expected(ROWS.apart(_anywhere(60, seed=9)))
    assert np.median(unsure) > 2 * np.median(deviation)
    truth = np.array([float(row[0]) + (row[3] == 2) for row in _anywhere(60, seed=9)])
    assert np.abs(unseen - truth).mean() < 0.1


def test_factors_that_matter_weigh_more_and_chance_is_called_noise() -> None:
    rows, random = _anywhere(80), np.random.default_rng(3)
    clear = np.array([float(row[0]) * 2 for row in rows])
    weights = Process(ROWS.apart(rows), clear, np.arange(80)).weights
    assert weights[0] > 5 * max(weights[1:])
    noisy = Process(ROWS.apart(rows), clear + random.standard_normal(80), np.arange(80))
    assert noisy.noise > 100 * Process(ROWS.apart(rows), clear, np.arange(80)).noise


def test_what_is_believed_is_less_promising() -> None:
    rows = _anywhere(40)
    process = Process(ROWS.apart(rows), np.array([float(row[0]) for row in rows]), np.arange(40))
    place = ROWS.apart(_anywhere(1, seed=5))
    before = process.expected(place)
    process.believe(place)
    after = process.expected(place)
    assert after[0] == pytest.approx(before[0], abs=1e-3)
    assert after[1] < before[1] / 2


def test_losses_that_are_all_alike_are_modelled_without_complaint() -> None:
    rows = _anywhere(20)
    with np.errstate(all="raise", under="ignore"):
        expected, deviation = Process(ROWS.apart(rows), np.zeros(20), np.arange(20)).expected(ROWS.apart(rows))
    assert not expected.any() and (deviation > 0).all()


def test_an_unlikely_improvement_is_still_a_number() -> None:
    promise = _log_improvement(np.array([-40.0, -6.1, -5.9, 0.0, 3.0]))
    assert np.isfinite(promise).all() and (np.diff(promise) > 0).all()
