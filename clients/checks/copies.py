"""Samples of a checked dataset that count as one, told before anything is paid for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from activities.datasets import divide_as_given, draw_splits
from activities.datasets.ingestion import content_of
from activities.datasets.run_dataset import refuse_nothing_to_group_by
from store.write.datasets import SampleRow
from workflows.model.spec.dataset import Item, SplitName
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import LeftOut
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
    told_of_left_out,
    told_of_too_few,
)
from workflows.rules.scoring.slices import stratum
from workflows.rules.spec.default_splits import splits_of


@dataclass(frozen=True, slots=True)
class DrawnSplits:
    """The splits of a dataset in which samples count as one, or name their splits."""

    sizes: Mapping[Split, int]
    counting: Mapping[Split, int]
    """How many samples of each count by themselves."""
    left_out: Mapping[Split, LeftOut]
    """Of given splits: samples that an earlier one has, too."""


class Members:
    """Collects of every sample what says with which others it counts as one."""

    def __init__(self, request: OptimizationRequest) -> None:
        self._request = request
        self._given = request.dataset
        self._hashes: list[str] = []
        self._contents: list[bytes] = []
        self._groups: list[str | None] = []
        self._strata: list[str] = []
        self._ids: list[str] = []
        self.drawn: DrawnSplits | None = None
        """How large the splits are, where only dividing the samples tells; None where every sample counts by itself."""

    def look(self, _where: str, item: Item, row: SampleRow) -> None:
        by, splits = self._given.grouped_by, self._given.drawn_splits
        self._hashes.append(row.item_hash)
        self._ids.append(row.item_id)
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

    def divide(self, given: Sequence[Sequence[SplitName]]) -> None:
        """Once all are seen: put them into the splits that are `given`, or draw those."""
        if given:
            named = list(zip(self._ids, given, strict=True))
            divided = divide_as_given(self._given, self._hashes, named, self._request.seed, self.clusters)
            found, left_out = divided.members, divided.left_out
        elif self.clusters.merge:
            shares = splits_of(self._request, self.clusters.count)
            found = draw_splits(self._hashes, shares, self._request.seed, self._strata or None, self.clusters)
            left_out = {}
        else:
            return
        first_of = dict(zip(self._hashes, self.clusters.first, strict=True))
        sizes = {split: len(members) for split, members in found.items()}
        counting = {split: len(members) - len(same_as(members, first_of)) for split, members in found.items()}
        self.drawn = DrawnSplits(sizes, counting, left_out)

    def told(self) -> Iterator[str]:
        """What a person should know of them, each with its field."""
        where = self._given.given_at
        for split, left_out in (self.drawn.left_out if self.drawn is not None else {}).items():
            yield f"{where}: {told_of_left_out(split, left_out)}"
        if copies := told_of_copies(self.clusters):
            yield f"{where}: {copies}"
        if groups := told_of_groups(self.clusters, self._given.grouped_by or ""):
            yield f"{self._given.grouped_at}: {groups}"
        if too_few := told_of_too_few(self.clusters, FEWEST_SAMPLES):
            yield f"{where if self._given.grouped_by is None else self._given.grouped_at}: {too_few}"
