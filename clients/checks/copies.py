"""Samples of a checked dataset that count as one, told before anything is paid for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from activities.datasets import draw_splits
from activities.datasets.ingestion import content_of
from activities.datasets.run_dataset import refuse_nothing_to_group_by
from store.write.datasets import SampleRow
from workflows.model.spec.dataset import Dataset, Item
from workflows.model.trial import Split
from workflows.rules.decisions.verdicts import FEWEST_SAMPLES
from workflows.rules.scoring.clusters import (
    Clusters,
    clusters_of,
    group_of_tags,
    is_of_tags,
    known_group,
    same_as,
    told_of_copies,
    told_of_groups,
    told_of_too_few,
)
from workflows.rules.scoring.slices import stratum


@dataclass(frozen=True, slots=True)
class DrawnSplits:
    """The splits of a dataset in which samples count as one."""

    sizes: Mapping[Split, int]
    counting: Mapping[Split, int]
    """How many samples of each count by themselves."""


class Members:
    """Collects of every sample what says with which others it counts as one."""

    def __init__(self, given: Dataset, seed: int) -> None:
        self._given = given
        self._seed = seed
        self._hashes: list[str] = []
        self._contents: list[bytes] = []
        self._groups: list[str | None] = []
        self._strata: list[str] = []

    def look(self, _where: str, item: Item, row: SampleRow) -> None:
        by, splits = self._given.grouped_by, self._given.splits
        self._hashes.append(row.item_hash)
        self._contents.append(content_of(row))
        if by is not None:
            self._groups.append(known_group(group_of_tags(row.tags, by) if is_of_tags(by) else stratum(item, by)))
        if splits is not None and splits.stratify_by is not None:
            self._strata.append(stratum(item, splits.stratify_by) or "")

    def refuse_nothing_to_group_by(self) -> None:
        """Raise DatasetError where no sample has what samples are to be grouped by."""
        if self._given.grouped_by is not None:
            refuse_nothing_to_group_by(self._given, any(group is not None for group in self._groups))

    @cached_property
    def clusters(self) -> Clusters:
        """Once all are seen."""
        return clusters_of(self._contents, self._groups if self._given.grouped_by is not None else None)

    def drawn(self) -> DrawnSplits | None:
        """How large the splits are, which with clusters only drawing them tells; None where every sample counts by itself."""
        if not self.clusters.merge:
            return None
        found = draw_splits(self._hashes, self._given.splits, self._seed, self._strata or None, self.clusters)
        first_of = dict(zip(self._hashes, self.clusters.first, strict=True))
        sizes = {split: len(members) for split, members in found.items()}
        return DrawnSplits(sizes, {split: len(members) - len(same_as(members, first_of)) for split, members in found.items()})

    def told(self) -> Iterator[str]:
        """What a person should know of them, each with its field."""
        where = "dataset.items" if self._given.path is None else "dataset.path"
        if copies := told_of_copies(self.clusters):
            yield f"{where}: {copies}"
        if groups := told_of_groups(self.clusters, self._given.grouped_by or ""):
            yield f"{self._given.grouped_at}: {groups}"
        if too_few := told_of_too_few(self.clusters, FEWEST_SAMPLES):
            yield f"{where if self._given.grouped_by is None else self._given.grouped_at}: {too_few}"
