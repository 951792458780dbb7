"""Agreement of people who label: against what the literature works out, and an interval that holds what it says."""

from __future__ import annotations

import numpy as np
import pytest

from workflows.rules.statistics.agreement import Coefficient, agreement


def by_method(said: list[list[int | None]], categories: int, *, ordered: bool = False) -> dict[str, Coefficient]:
    return {one.method: one for one in agreement(said, categories, ordered=ordered, seed=7)}


def test_two_people_are_told_cohens_kappa() -> None:
    table = [(0, 0, 20), (0, 1, 5), (1, 0, 10), (1, 1, 15)]  # Cohen's example of grants: 0.4
    said: list[list[int | None]] = [[one, other] for one, other, times in table for _ in range(times)]
    found = by_method(said, 2)
    assert found["cohen"].value == pytest.approx(0.4)
    assert (found["cohen"].items, found["cohen"].people, "fleiss" in found) == (50, 2, False)
    assert found["cohen"].low is not None and found["cohen"].high is not None
    assert found["cohen"].low < 0.4 < found["cohen"].high


def test_more_people_are_told_fleiss_kappa_of_what_all_of_them_labelled() -> None:
    counts = [  # Fleiss' example of ten items, fourteen people and five categories: 0.210
        *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
        *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
    ]
    said: list[list[int | None]] = [[category for category, times in enumerate(row) for _ in range(times)] for row in counts]
    found = by_method(said, 5)
    assert found["fleiss"].value == pytest.approx(0.210, abs=5e-4)
    said.append([0, *[None] * 13])
    assert by_method(said, 5)["fleiss"].items == 10


def test_krippendorffs_alpha_takes_what_only_some_labelled_and_counts_steps_of_a_scale_by_their_square() -> None:
    coders = ["*****34121133*3", "1*213343*******", "**21344*21133*4"]  # Krippendorff's example: * is missing
    said = [[None if coder[unit] == "*" else int(coder[unit]) - 1 for coder in coders] for unit in range(15)]
    assert by_method(said, 4)["krippendorff"].value == pytest.approx(0.691, abs=5e-4)
    assert by_method(said, 4, ordered=True)["krippendorff"].value == pytest.approx(0.811, abs=5e-4)
    assert by_method(said, 4)["krippendorff"].items == 12


def test_where_everybody_says_the_same_of_everything_nothing_is_told() -> None:
    assert {one.value for one in agreement([[1, 1]] * 20, 2, ordered=False, seed=7)} == {None}
    assert agreement([[1], [0]], 2, ordered=False, seed=7) == []
    assert agreement([], 2, ordered=False, seed=7) == []


def test_the_interval_holds_the_true_value_about_as_often_as_it_says() -> None:
    # Two people who each err in a tenth of cases, on items of which half are right: kappa is 0.64.
    generator, inside, times = np.random.default_rng(11), 0, 200
    for _ in range(times):
        truth = generator.integers(0, 2, 150)
        errs = generator.random((2, 150)) < 0.1
        said: list[list[int | None]] = np.where(errs, 1 - truth, truth).T.tolist()
        found = agreement(said, 2, ordered=False, seed=7)[0]
        assert found.low is not None and found.high is not None
        inside += found.low <= 0.64 <= found.high
    assert 0.9 <= inside / times <= 0.99
