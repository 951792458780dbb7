"""Clusters: what says the same thing several times counts once, and nothing of it is on two sides of a split."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.datasets.splits import draw_splits
from workflows.model.spec.dataset import Splits
from workflows.model.trial import Split
from workflows.rules.scoring.clusters import (
    Clusters,
    clusters_of,
    gathered,
    group_of_tags,
    same_as,
    told_of_copies,
    told_of_groups,
    told_of_too_few,
)

SPLITS = Splits(train=0.4, validation=0.4, test=0.2)


def hashes(count: int) -> list[str]:
    return [f"{n:064x}" for n in range(count)]


def drawn(
    clusters: Clusters, splits: Splits | None = SPLITS, seed: int = 0, strata: list[str] | None = None
) -> dict[str, list[str]]:
    """The splits of as many samples, every cluster of which is checked to be in one of them."""
    names = hashes(len(clusters.first))
    cluster_of = dict(zip(names, clusters.first, strict=True))
    found = draw_splits(names, splits, seed, strata, clusters)
    homes = {(cluster_of[name], split) for split, members in found.items() for name in members}
    assert max(Counter(cluster for cluster, _ in homes).values(), default=1) == 1
    everything = [name for members in found.values() for name in members]
    assert len(everything) == len(set(everything))
    return {split.value: members for split, members in found.items()}


class TestWhatCountsAsOne:
    def test_copies_are_found_and_counted(self) -> None:
        found = clusters_of(["a", "b", "a", "c", "b", "a"])
        assert (found.first, found.count, found.copies, found.contents) == ([0, 1, 0, 3, 1, 0], 3, 5, 2)
        assert told_of_copies(found) == "5 samples are copies of 2 contents: each content counts once"

    def test_where_nothing_is_alike_nothing_is_merged_and_nothing_is_said(self) -> None:
        found = clusters_of(["a", "b", "c"])
        assert (found.merge, found.count, found.groups, told_of_copies(found)) == (False, 3, None, None)

    def test_groups_are_clusters_and_what_is_in_none_is_by_itself(self) -> None:
        found = clusters_of([1, 2, 3, 4, 5], ["x", "y", None, "x", None])
        assert (found.first, found.groups, found.joined) == ([0, 1, 2, 0, 4], 2, 0)
        assert told_of_groups(found, "input.q") is None

    def test_a_content_in_two_groups_makes_them_one_and_that_is_told(self) -> None:
        found = clusters_of(["hello", "b", "hello", "d", "e"], ["x", "x", "y", "y", "z"])
        assert (found.first, found.joined) == ([0, 0, 0, 0, 4], 1)
        told = "1 of 3 groups by 'tags.customer' holds a copy of another group's content and counts as one with it"
        assert told_of_groups(found, "tags.customer") == told

    def test_so_few_that_nothing_can_be_compared_are_told(self) -> None:
        found = clusters_of([0, 1] * 30)
        assert told_of_too_few(found, 4) == "60 samples count as 2, with which nothing can be compared; 4 are the fewest"
        assert told_of_too_few(clusters_of([0, 1]), 4) is None

    @pytest.mark.parametrize(
        ("field", "group"),
        [("tags.customer", '["customer:acme"]'), ("tags.plan", '["plan=pro"]'), ("tags.custom", "[]"), ("tags.x", "[]")],
    )
    def test_a_tag_with_a_name_says_the_group(self, field: str, group: str) -> None:
        assert group_of_tags(["urgent", "plan=pro", "customer:acme"], field) == group

    def test_all_tags_together_are_one_value(self) -> None:
        assert group_of_tags(["b", "a", "b"], "tags") == '["a","b"]'

    @given(st.lists(st.tuples(st.integers(0, 8), st.none() | st.sampled_from("xyz")), min_size=1, max_size=60))
    def test_clusters_are_the_connected_parts_whatever_is_alike(self, given_samples: list[tuple[int, str | None]]) -> None:
        contents, groups = [content for content, _ in given_samples], [group for _, group in given_samples]
        first = clusters_of(contents, groups).first
        for one, (content, group) in enumerate(given_samples):
            assert first[one] <= one and first[first[one]] == first[one]
            for other in range(one):
                alike = contents[other] == content or (group is not None and groups[other] == group)
                assert not alike or first[one] == first[other]


class TestSplitsOfClusters:
    def test_copies_never_stand_on_two_sides_of_a_split(self) -> None:
        for seed in range(20):
            found = drawn(clusters_of([n % 10 for n in range(60)]), seed=seed)
            assert {split: len(members) for split, members in found.items()} == {"train": 24, "validation": 24, "test": 12}

    def test_without_copies_everything_is_drawn_as_before(self) -> None:
        names = hashes(50)
        for splits in (None, SPLITS):
            assert draw_splits(names, splits, 3, None, clusters_of(names)) == draw_splits(names, splits, 3)

    def test_it_depends_on_the_seed_and_not_on_the_order_of_the_file(self) -> None:
        names, contents = hashes(60), [n % 12 for n in range(60)]
        once = draw_splits(names, SPLITS, 7, None, clusters_of(contents))
        assert once == draw_splits(names[::-1], SPLITS, 7, None, clusters_of(contents[::-1]))
        assert once != draw_splits(names, SPLITS, 8, None, clusters_of(contents))

    def test_strata_have_their_shares_as_far_as_clusters_let_them(self) -> None:
        strata = ["rare" if n % 20 < 5 else "common" for n in range(200)]
        found = drawn(clusters_of([n % 100 for n in range(200)]), strata=strata)
        stratum_of = dict(zip(hashes(200), strata, strict=True))
        told = {split: Counter(stratum_of[name] for name in members) for split, members in found.items()}
        assert told == {
            "train": {"rare": 20, "common": 60},
            "validation": {"rare": 20, "common": 60},
            "test": {"rare": 10, "common": 30},
        }

    def test_a_group_as_large_as_half_of_all_takes_no_split_away(self) -> None:
        found = drawn(clusters_of(range(100), ["big"] * 50 + [f"g{n % 10}" for n in range(50)]))
        assert all(found[split] for split in ("train", "validation", "test"))
        assert sum(map(len, found.values())) == 100

    def test_shares_that_leave_samples_out_leave_out_whole_clusters(self) -> None:
        found = drawn(clusters_of([n % 20 for n in range(100)]), Splits(validation=0.3, test=0.2))
        assert {split: len(members) for split, members in found.items()} == {"train": 0, "validation": 30, "test": 20}

    @given(
        st.lists(st.integers(0, 12), min_size=1, max_size=60),
        st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(0, 5)),
        st.integers(0, 3),
    )
    def test_whatever_the_clusters_and_shares(self, contents: list[int], shares: tuple[int, int, int], strata: int) -> None:
        train, validation, test = (share / sum(shares) for share in shares)
        splits = Splits(train=train, validation=validation, test=test)
        values = [str(n % strata) for n in range(len(contents))] if strata else None
        clusters = clusters_of(contents)
        found = drawn(clusters, splits, strata=values)
        assert sum(map(len, found.values())) == len(contents)
        needed = [name for name, share in (("train", train), ("validation", validation), ("test", test)) if share]
        assert found["validation"]
        if clusters.count >= len(needed):
            assert all(found[name] for name in needed)

    def test_the_first_samples_are_of_as_many_clusters_as_there_are(self) -> None:
        clusters = clusters_of([n % 10 for n in range(60)])
        members = drawn(clusters, None)["all"]
        assert len({int(name, 16) % 10 for name in members[:10]}) == 10
        together = gathered(members, dict(zip(hashes(60), clusters.first, strict=True)))
        assert sorted(together) == sorted(members)
        assert all(len({int(name, 16) % 10 for name in together[start : start + 6]}) == 1 for start in range(0, 60, 6))

    def test_same_as_says_where_the_first_of_the_cluster_is(self) -> None:
        assert same_as(["a", "b", "c", "d"], {"a": 5, "b": 7, "c": 5, "d": 5}) == {2: 0, 3: 0}


def test_splits_of_clusters_name_every_split() -> None:
    assert set(drawn(clusters_of([1, 1, 2]))) == {split.value for split in (Split.TRAIN, Split.VALIDATION, Split.TEST)}
