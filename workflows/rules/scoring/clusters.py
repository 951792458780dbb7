"""Clusters: samples that say the same thing several times, and so go to one split together and count once in a comparison.

Copies of one content are a cluster, whatever their ids, weights and tags; so are the samples of a group that the user names.
Where copies stand in several groups, the groups are one cluster: no content may be on two sides of a split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ratchet._formats.canonical import canonical_json
from workflows.model.suite import LeftOut
from workflows.model.trial import Split
from workflows.rules.scoring.slices import TAGS

SEPARATORS: Final = (":", "=")
"""What stands between the name and the value of a tag such as `customer:acme`."""

NO_GROUP: Final = (None, "null", '""', "[]")
"""Values by which samples are in no group: to lack a name in common says nothing."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Which samples of a dataset count as one."""

    first: Sequence[int]
    """For every sample the place of the first one of its cluster."""
    copies: int = 0
    """Samples whose content another one has, too."""
    contents: int = 0
    """How many contents these are."""
    groups: int | None = None
    """How many groups the samples are in; None where none were asked for."""
    joined: int = 0
    """Groups that count as one with another, because they hold copies of each other's content."""

    @property
    def count(self) -> int:
        """How much there is to learn from: what counts by itself."""
        return len(set(self.first))

    @property
    def merge(self) -> bool:
        """Whether any two samples count as one."""
        return self.count < len(self.first)


def clusters_of(contents: Sequence[Hashable], groups: Sequence[str | None] | None = None) -> Clusters:
    """The clusters of samples, given the content of each and the group that it is in, if any."""
    joining = _Joining(len(contents))
    by_content: dict[Hashable, int] = {}
    by_group: dict[str, int] = {}
    for place, content in enumerate(contents):
        joining.join(by_content.setdefault(content, place), place)
        group = None if groups is None else groups[place]
        if group is not None:
            joining.join(by_group.setdefault(group, place), place)
    first = [joining.first(place) for place in range(len(contents))]
    several = [times for times in Counter(contents).values() if times > 1]
    return Clusters(
        first,
        copies=sum(several),
        contents=len(several),
        groups=None if groups is None else len(by_group),
        joined=len(by_group) - len({first[place] for place in by_group.values()}),
    )


class _Joining:
    """Sets of places that grow together; each is known by its first place."""

    def __init__(self, count: int) -> None:
        self._towards = list(range(count))

    def first(self, place: int) -> int:
        while self._towards[place] != place:
            self._towards[place] = self._towards[self._towards[place]]
            place = self._towards[place]
        return place

    def join(self, one: int, other: int) -> None:
        one, other = self.first(one), self.first(other)
        self._towards[max(one, other)] = min(one, other)


def is_of_tags(field: str) -> bool:
    """Whether samples are grouped by their tags."""
    return field == TAGS or field.startswith(f"{TAGS}.")


def group_of_tags(tags: Iterable[str], field: str) -> str:
    """By `tags` all of them together, by `tags.customer` those such as `customer:acme`."""
    name = field.partition(".")[2]
    named = {tag for tag in tags if not name or any(tag.startswith(name + separator) for separator in SEPARATORS)}
    return canonical_json(sorted(named))


def known_group(value: str | None) -> str | None:
    """The value of a field as a group, which nothing is none of."""
    return None if value in NO_GROUP else value


def same_as(members: Sequence[str], first_of: Mapping[str, int]) -> dict[int, int]:
    """Of some samples in order, given the cluster of each: for those that count as one with an earlier one, their place and
    that of the earliest."""
    firsts: dict[int, int] = {}
    found = {}
    for place, member in enumerate(members):
        first = firsts.setdefault(first_of[member], place)
        if first != place:
            found[place] = first
    return found


def spread(members: Sequence[str], first_of: Mapping[str, int]) -> list[str]:
    """Samples in an order in which no cluster comes again before every other one had its turn: the first ones say the most."""
    turns: Counter[int] = Counter()
    turn_of = {}
    for member in members:
        turn_of[member] = turns[first_of[member]]
        turns[first_of[member]] += 1
    return sorted(members, key=turn_of.__getitem__)


def gathered(members: Sequence[str], first_of: Mapping[str, int]) -> list[str]:
    """Samples in an order in which those of a cluster follow each other, the clusters in the order of their first samples."""
    by_cluster: dict[int, list[str]] = {}
    for member in members:
        by_cluster.setdefault(first_of[member], []).append(member)
    return [member for together in by_cluster.values() for member in together]


def told_of_copies(clusters: Clusters) -> str | None:
    """What a person is told of copies, in a sentence; None where there are none."""
    if not clusters.copies:
        return None
    contents = "one content" if clusters.contents == 1 else f"{clusters.contents:,} contents"
    return f"{clusters.copies:,} samples are copies of {contents}: each content counts once"


def told_of_groups(clusters: Clusters, field: str) -> str | None:
    """What a person is told of groups that hold copies of each other's content; None where none do."""
    if not clusters.joined:
        return None
    several = clusters.joined > 1
    groups = f"{clusters.joined:,} of {clusters.groups:,} groups by {field!r} {'hold copies' if several else 'holds a copy'}"
    return f"{groups} of another group's content and {'count' if several else 'counts'} as one with it"


def told_of_left_out(split: Split, left_out: LeftOut) -> str:
    """What a person is told of samples that are left out of a given split, because an earlier one has them."""
    samples = "sample is" if left_out.count == 1 else "samples are"
    earlier = "train" if split is Split.VALIDATION else "train or validation"
    why = "what counts as one with it is" if left_out.grouped else "the same content is"
    more = ", …" if left_out.count > len(left_out.ids) else ""
    return f"{left_out.count:,} {split.value} {samples} left out, as {why} in {earlier}, too: {', '.join(left_out.ids)}{more}"


def told_of_too_few(clusters: Clusters, fewest: int) -> str | None:
    """What a person is told of samples that count as so few that no comparison can say anything; None where they do not."""
    if not clusters.merge or clusters.count >= fewest:
        return None
    samples = f"{len(clusters.first):,} samples count as {clusters.count}"
    return f"{samples}, with which nothing can be compared; {fewest} are the fewest"
