"""Splits as the samples name them, with no content in two of them.

What counts as one, copies of a content and groups, stays in the first of train, validation and test that it was given in. In
the later ones it would be evidence that the search has seen, so it is left out there, and that is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from activities.datasets.dataset_errors import DatasetError
from activities.datasets.splits import in_drawn_order
from workflows.model.spec.dataset import SPLIT_NAMES, Dataset, SplitName
from workflows.model.suite import LeftOut
from workflows.model.trial import Split
from workflows.rules.scoring.clusters import Clusters, spread

MOST_NAMED = 5
"""Samples that are left out and named."""

RANK: Mapping[SplitName, int] = {split: rank for rank, split in enumerate(SPLIT_NAMES)}
NamedSplits = tuple[str, Sequence[SplitName]]
"""A sample's id, and the splits that it was given in."""


@dataclass(frozen=True, slots=True)
class GivenSplits:
    """Which samples belong to which split, and what was left out of one."""

    members: dict[Split, list[str]]
    left_out: dict[Split, LeftOut]


def divide_as_given(
    dataset: Dataset, item_hashes: Sequence[str], given: Sequence[NamedSplits], seed: int, clusters: Clusters
) -> GivenSplits:
    """Put every sample into the split that it names, in an order that depends on nothing but the seed and their content.

    Raise DatasetError where the spec asks for shares beside, and where nothing is left of a split.
    """
    if dataset.drawn_splits is not None:
        raise DatasetError(
            "dataset.splits: the samples name their splits themselves, so that no shares are drawn; drop the shares, or the "
            "split of the samples (to keep a column of that name as input, list it in dataset.columns.input)"
        )
    earliest: dict[int, SplitName] = {}
    for first, (_, splits) in zip(clusters.first, given, strict=True):
        earliest[first] = min((*splits, *([earliest[first]] if first in earliest else [])), key=RANK.__getitem__)
    split_of: dict[str, SplitName] = {}
    ids_left_out: dict[SplitName, list[str]] = {}
    for item_hash, first, (item_id, splits) in zip(item_hashes, clusters.first, given, strict=True):
        for split in splits:
            if split == earliest[first]:
                split_of[item_hash] = split
            else:
                ids_left_out.setdefault(split, []).append(item_id)
    members: dict[Split, list[str]] = {Split(split): [] for split in SPLIT_NAMES if any(split in named for _, named in given)}
    for item_hash in in_drawn_order(item_hashes, seed):
        if item_hash in split_of:
            members[Split(split_of[item_hash])].append(item_hash)
    if clusters.merge:
        first_of = dict(zip(item_hashes, clusters.first, strict=True))
        members = {split: spread(hashes, first_of) for split, hashes in members.items()}
    _refuse_emptied(dataset.given_at, members, ids_left_out)
    grouped = dataset.grouped_by is not None
    left_out = {
        Split(split): LeftOut(count=len(ids), ids=tuple(ids[:MOST_NAMED]), grouped=grouped)
        for split, ids in ids_left_out.items()
    }
    return GivenSplits(members, left_out)


def _refuse_emptied(field: str, members: Mapping[Split, Sequence[str]], left_out: Mapping[SplitName, Sequence[str]]) -> None:
    for split, ids in left_out.items():
        if not members[Split(split)]:
            earlier = " or ".join(name for name in SPLIT_NAMES[: RANK[split]] if Split(name) in members)
            raise DatasetError(
                f"{field}: {split} has no sample of its own: what its {len(ids):,} samples say is in {earlier}, too; "
                f"give {split} other samples, or leave it out"
            )
