"""Which splits are drawn where the spec states no shares: some samples are held back where enough are left on both sides."""

from __future__ import annotations

import math

from workflows.model.spec.dataset import Splits
from workflows.model.spec.request import OptimizationRequest

FEWEST_OF_A_SPLIT = 30
"""Samples that count, to search on and to confirm on. With fewer held back only gains of a third and more are found, while
cross-fitting over all samples finds smaller ones."""

HELD_BACK = Splits(validation=0.6, test=0.4)
TO_LEARN_FROM = Splits(train=0.3, validation=0.3, test=0.4)
NOTHING_HELD_BACK = Splits(train=0.5, validation=0.5)


def splits_of(request: OptimizationRequest, counting: int) -> Splits | None:
    """The shares to draw of samples that name no splits, given how many of them count; None where all are searched on."""
    given = request.dataset.drawn_splits
    if request.dataset.holds_nothing_back or (given is not None and given.has_shares):
        return given
    if not request.optimizer.seeks_winner:
        return None
    learns = request.optimizer.learns_from_train
    if counting >= fewest_to_hold_back(request):
        shares = TO_LEARN_FROM if learns else HELD_BACK
    elif learns:
        shares = NOTHING_HELD_BACK
    else:
        return None
    return shares if given is None else shares.model_copy(update={"stratify_by": given.stratify_by, "group_by": given.group_by})


def is_nothing_held_back(request: OptimizationRequest) -> bool:
    """Whether that is certain before the samples are read."""
    given = request.dataset
    if given.lacks("test") or given.items is None or any(item.split for item in given.items):
        return given.lacks("test")
    shares = splits_of(request, len(given.items))
    return shares is None or not shares.test


def fewest_to_hold_back(request: OptimizationRequest) -> int:
    """How many samples have to count for some to be held back without being asked for."""
    shares = TO_LEARN_FROM if request.optimizer.learns_from_train else HELD_BACK
    return math.ceil(FEWEST_OF_A_SPLIT / min(shares.validation, shares.test) - 1e-9)


def told_of_confirmation(request: OptimizationRequest, held_back: int) -> str | None:
    """How a winner is confirmed where nothing is held back, in a sentence; None where something is, or nothing is confirmed."""
    if held_back or request.dataset.holds_nothing_back or not request.optimizer.seeks_winner:
        return None
    afresh = "with fresh answers to the samples of the search, or where these are all alike "
    return (
        f"no samples are held back, which takes {fewest_to_hold_back(request)} samples or a share in dataset.splits.test: "
        f"the winner is confirmed {afresh if request.judgement.accept == 'shorter' else ''}by cross-fitting over the samples "
        "of the search"
    )
