"""Splits: which samples candidates are searched with, and which are held back, drawn by the run's seed.

Without strata the order alone decides. With strata every value of the field gets its share of every split, and where it has
as many samples as there are splits, at least one in each: that may shift the shares a little. What is too rare for that is
given to whichever split is behind its share.

Samples that count as one stay together. As a cluster can be as large as a split, shares are then met as nearly as it goes: the
largest clusters are placed first, each where most is missing.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from workflows.model.spec.dataset import Splits
from workflows.model.trial import Split
from workflows.rules.scoring.clusters import Clusters, spread

Sizes = dict[Split, int]
ROUNDING = 1e-9


def draw_splits(
    item_hashes: Sequence[str],
    splits: Splits | None,
    seed: int,
    strata: Sequence[str] | None = None,
    clusters: Clusters | None = None,
) -> dict[Split, list[str]]:
    """Which samples belong to which split, in an order that depends on nothing but the seed and their content.

    `strata` has the value to stratify by for every sample; `clusters` says which samples stay together.
    """
    drawn = in_drawn_order(item_hashes, seed)
    if clusters is not None and clusters.merge:
        return _drawn_together(item_hashes, drawn, splits, strata, clusters)
    if splits is None:
        return {Split.ALL: drawn}
    if strata is None:
        return _cut(drawn, _sizes(_shares(splits), len(drawn)))
    stratum_of = dict(zip(item_hashes, strata, strict=True))
    sizes = _stratum_sizes(_shares(splits), Counter(strata))
    if sizes is None:
        return _cut(drawn, _sizes(_shares(splits), len(drawn)))
    result: dict[Split, list[str]] = {split: [] for split in _shares(splits)}
    for item_hash in drawn:
        left = sizes[stratum_of[item_hash]]
        split = next((split for split, size in left.items() if size), None)
        if split is not None:
            left[split] -= 1
            result[split].append(item_hash)
    return result


def in_drawn_order(item_hashes: Sequence[str], seed: int) -> list[str]:
    """Samples in the order in which the seed draws them."""
    return sorted(item_hashes, key=lambda item_hash: hashlib.sha256(f"{seed}:{item_hash}".encode()).digest())


def _drawn_together(
    item_hashes: Sequence[str],
    drawn: Sequence[str],
    splits: Splits | None,
    strata: Sequence[str] | None,
    clusters: Clusters,
) -> dict[Split, list[str]]:
    """The same where samples count as one: every cluster is in one split."""
    first_of = dict(zip(item_hashes, clusters.first, strict=True))
    if splits is None:
        return {Split.ALL: spread(drawn, first_of)}
    stratum_of = dict(zip(item_hashes, strata or [""] * len(item_hashes), strict=True))
    made_of: dict[int, Counter[str]] = {}
    for item_hash in drawn:
        made_of.setdefault(first_of[item_hash], Counter())[stratum_of[item_hash]] += 1
    placed = _placed(_shares(splits), made_of)
    result: dict[Split, list[str]] = {split: [] for split in _shares(splits)}
    for item_hash in drawn:
        split = placed[first_of[item_hash]]
        if split is not None:
            result[split].append(item_hash)
    return {split: spread(members, first_of) for split, members in result.items()}


def _placed(shares: Mapping[Split, float], made_of: Mapping[int, Counter[str]]) -> dict[int, Split | None]:
    """The split of every cluster; None where the shares leave it out. `made_of` has the samples of each by their stratum."""
    totals: Counter[str] = Counter()
    for strata in made_of.values():
        totals.update(strata)
    unused = max(0.0, 1.0 - sum(shares.values()))
    served = [split for split in _by_importance(shares) if shares[split] > 0]
    places: list[Split | None] = [*served, *([None] if unused > ROUNDING else [])]
    missing = {
        place: {stratum: (unused if place is None else shares[place]) * count for stratum, count in totals.items()}
        for place in places
    }
    placed: dict[int, Split | None] = {}
    for cluster in sorted(made_of, key=lambda one: -made_of[one].total()):  # alike ones as they were drawn
        # What is missing is met best where the squares of what is missing shrink most.
        place = max(places, key=lambda one: _shrinks(missing[one], made_of[cluster]))
        placed[cluster] = place
        for stratum, count in made_of[cluster].items():
            missing[place][stratum] -= count
    for needy in served:
        if needy not in placed.values():
            _give_one(placed, needy, served, made_of)
    return placed


def _shrinks(missing: Mapping[str, float], cluster: Mapping[str, int]) -> float:
    return round(sum(count * (2 * missing[stratum] - count) for stratum, count in cluster.items()), 6)


def _give_one(
    placed: dict[int, Split | None], needy: Split, served: Sequence[Split], made_of: Mapping[int, Counter[str]]
) -> None:
    """The smallest cluster that is left out or is no split's only one, or that of a split which matters less."""
    held = Counter(placed.values())
    less = served[served.index(needy) + 1 :]
    spare = [cluster for cluster, place in placed.items() if place is None or held[place] > 1]
    spare = spare or [cluster for cluster, place in placed.items() if place in less]
    if spare:
        placed[min(spare, key=lambda one: made_of[one].total())] = needy


def split_sizes(count: int, splits: Splits | None, strata: Mapping[str, int] | None = None) -> Sizes:
    """How many samples `draw_splits` gives to each split; `strata` says how many have each value."""
    if splits is None:
        return {Split.ALL: count}
    by_stratum = _stratum_sizes(_shares(splits), strata) if strata is not None else None
    if by_stratum is None:
        return _sizes(_shares(splits), count)
    return {split: sum(sizes[split] for sizes in by_stratum.values()) for split in _shares(splits)}


def _shares(splits: Splits) -> dict[Split, float]:
    return {Split.VALIDATION: splits.validation, Split.TEST: splits.test, Split.TRAIN: splits.train}


def _by_importance(shares: Mapping[Split, float]) -> list[Split]:
    searched = Split.VALIDATION if shares[Split.VALIDATION] > 0 else Split.TRAIN
    return [searched, Split.TEST, *({Split.TRAIN} - {searched})]


def _cut(drawn: Sequence[str], sizes: Sizes) -> dict[Split, list[str]]:
    result: dict[Split, list[str]] = {}
    start = 0
    for split, size in sizes.items():
        result[split] = list(drawn[start : start + size])
        start += size
    return result


def _sizes(shares: Mapping[Split, float], count: int) -> Sizes:
    """Whole numbers by largest remainder. A share above 0 gets at least one sample, those first that matter most."""
    quotas = {split: share * count for split, share in shares.items()}
    sizes = {split: math.floor(quota + ROUNDING) for split, quota in quotas.items()}
    to_give = round(sum(quotas.values())) - sum(sizes.values())
    for split in sorted(quotas, key=lambda split: sizes[split] - quotas[split])[: max(to_give, 0)]:
        sizes[split] += 1
    by_importance = _by_importance(shares)
    for split in by_importance:
        if shares[split] > 0 and sizes[split] == 0:
            _take_one(sizes, split, count, by_importance)
    return sizes


def _take_one(sizes: Sizes, needy: Split, count: int, by_importance: list[Split]) -> None:
    if sum(sizes.values()) < count:
        sizes[needy] += 1
        return
    less_important = by_importance[by_importance.index(needy) + 1 :]
    largest = max(sizes, key=lambda split: sizes[split])
    giver = largest if sizes[largest] > 1 else next((split for split in less_important if sizes[split] > 0), None)
    if giver is not None:
        sizes[giver] -= 1
        sizes[needy] += 1


def _stratum_sizes(shares: Mapping[Split, float], strata: Mapping[str, int]) -> dict[str, Sizes] | None:
    """The sizes of every split within every stratum; None when that would leave a split without a single sample."""
    wanted = dict.fromkeys(shares, 0.0)
    given = dict.fromkeys(shares, 0)
    result: dict[str, Sizes] = {}
    # The frequent ones first: what rounding leaves to the rare ones evens out what the frequent ones are off.
    for stratum, count in sorted(strata.items(), key=lambda counted: (-counted[1], counted[0])):
        wanted = {split: wanted[split] + share * count for split, share in shares.items()}
        sizes = _present_everywhere(shares, count)
        to_give = min(round(sum(wanted.values())) - sum(given.values()), count) - sum(sizes.values())
        for _ in range(max(to_give, 0)):
            behind = {
                split: wanted[split] - given[split] - sizes[split] for split in _by_importance(shares) if shares[split] > 0
            }
            sizes[max(behind, key=lambda split: round(behind[split], 9))] += 1
        given = {split: given[split] + size for split, size in sizes.items()}
        result[stratum] = sizes
    return result if all(given[split] or not share for split, share in shares.items()) else None


def _present_everywhere(shares: Mapping[Split, float], count: int) -> Sizes:
    """Shares rounded down, but at least one of each where there are enough."""
    sizes = {split: math.floor(share * count + ROUNDING) for split, share in shares.items()}
    needed = [split for split, share in shares.items() if share > 0]
    if count < len(needed):
        return dict.fromkeys(shares, 0)
    for split in needed:
        sizes[split] = max(sizes[split], 1)
    while sum(sizes.values()) > count:
        sizes[max(sizes, key=lambda split: sizes[split])] -= 1
    return sizes
