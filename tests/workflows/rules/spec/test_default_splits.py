"""Samples are held back without being asked for, where enough are left on both sides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.spec_building import request
from workflows.rules.spec.default_splits import fewest_to_hold_back, splits_of, told_of_confirmation

ITEMS = [{"input": {"q": 1}}]
STEPS: dict[str, Any] = {"proposer": {"kind": "step"}}
FROM_TRAIN = {**STEPS, "examples_from": "train"}


@pytest.mark.parametrize(
    ("optimizer", "splits", "counting", "shares"),
    [
        (STEPS, None, 74, None),
        (STEPS, None, 75, (0.0, 0.6, 0.4)),
        (FROM_TRAIN, None, 99, (0.5, 0.5, 0.0)),
        (FROM_TRAIN, None, 100, (0.3, 0.3, 0.4)),
        (STEPS, {"stratify_by": "expected"}, 75, (0.0, 0.6, 0.4)),
        (STEPS, {"stratify_by": "expected"}, 20, None),
        (STEPS, {"validation": 1.0}, 500, (0.0, 1.0, 0.0)),
        (STEPS, "none", 500, None),
        ({"name": "none"}, None, 500, None),
        ({"name": "none"}, {"validation": 0.5, "test": 0.5}, 500, (0.0, 0.5, 0.5)),
        ({"name": "none", "configurations": [{"model": "b"}]}, None, 75, (0.0, 0.6, 0.4)),
    ],
)
def test_shares_by_how_many_samples_count(
    optimizer: dict[str, Any], splits: Any, counting: int, shares: tuple[float, ...] | None
) -> None:
    asked = request(optimizer=optimizer, dataset={"items": ITEMS, "splits": splits})
    drawn = splits_of(asked, counting)
    assert (drawn and (drawn.train, drawn.validation, drawn.test)) == shares
    assert (drawn.stratify_by if drawn else None) == (splits.get("stratify_by") if isinstance(splits, dict) and drawn else None)
    again = type(asked).model_validate(asked.model_dump(mode="json", by_alias=True))
    assert splits_of(again, counting) == drawn, "a stored spec means the same"


@pytest.mark.parametrize("splits", [None, {"stratify_by": "expected"}])
def test_where_nothing_is_chosen_nothing_is_held_back_and_no_winner_is_spoken_of(splits: Any) -> None:
    measured = request(optimizer="none", dataset={"items": ITEMS, "splits": splits})
    assert (splits_of(measured, 500), told_of_confirmation(measured, 0)) == (None, None)
    compared = request(
        optimizer={"name": "none", "configurations": [{"model": "b"}]}, dataset={"items": ITEMS, "splits": splits}
    )
    assert splits_of(compared, 500) is not None
    assert (told_of_confirmation(compared, 0) or "").startswith("no samples are held back")
    shares = {"validation": 0.5, "test": 0.5}
    asked_for = splits_of(request(optimizer="none", dataset={"items": ITEMS, "splits": shares}), 500)
    assert asked_for is not None and asked_for.test == 0.5, "what the spec states holds"


def test_both_sides_have_thirty_samples() -> None:
    for optimizer in (STEPS, FROM_TRAIN):
        asked = request(optimizer=optimizer, dataset={"items": ITEMS})
        fewest = fewest_to_hold_back(asked)
        drawn = splits_of(asked, fewest)
        assert drawn is not None
        assert min(round(fewest * drawn.validation), round(fewest * drawn.test)) >= 30
