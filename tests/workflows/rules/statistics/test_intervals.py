"""Intervals of scores: what they always hold."""

from __future__ import annotations

import pytest

from workflows.rules.statistics import interval_of_score


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("samples", range(2, 80))
def test_a_share_is_within_its_own_interval_to_the_last_digit(share: float, samples: int) -> None:
    found = interval_of_score(share, [share] * samples)
    assert found is not None and found[0] <= share <= found[1]
