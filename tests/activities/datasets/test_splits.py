"""Splits: drawn by the seed, stratified, with clusters kept together."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.datasets import DatasetError, check_items, draw_splits, ingest, split_sizes
from activities.datasets.run_dataset import clusters_in, strata_of
from activities.preparing.evaluation_plan import plan_evaluation
from clients.checks.copies import Members
from store.connection import Database
from store.write.datasets import Datasets
from tests.support import spec_building
from tests.support.dataset_items import items
from workflows.model.run.contract import PrepareInput
from workflows.model.spec.dataset import Dataset, Splits
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split
from workflows.rules.scoring.clusters import clusters_of
from workflows.rules.scoring.slices import stratum


class TestSplits:
    """Splits are drawn by the seed and cut by shares."""

    HASHES = tuple(f"{n:064x}" for n in range(100))

    def sizes(self, count: int, **shares: float) -> dict[str, int]:
        drawn = draw_splits(self.HASHES[:count], Splits(**shares), 0)
        return {split.value: len(hashes) for split, hashes in drawn.items() if hashes}

    def test_without_shares_every_sample_is_searched_with(self) -> None:
        drawn = draw_splits(self.HASHES, None, 7)
        assert set(drawn) == {Split.ALL} and sorted(drawn[Split.ALL]) == sorted(self.HASHES)
        assert drawn[Split.ALL] != list(self.HASHES)

    def test_the_same_seed_draws_the_same_whatever_the_order_of_the_file(self) -> None:
        splits = Splits(train=0.4, validation=0.4, test=0.2)
        assert draw_splits(self.HASHES, splits, 7) == draw_splits(self.HASHES[::-1], splits, 7)
        assert draw_splits(self.HASHES, splits, 7) != draw_splits(self.HASHES, splits, 8)

    @pytest.mark.parametrize(
        ("count", "shares", "expected"),
        [
            (100, {"train": 0.4, "validation": 0.4, "test": 0.2}, {"train": 40, "validation": 40, "test": 20}),
            (10, {"train": 1 / 3, "validation": 1 / 3, "test": 1 / 3}, {"train": 3, "validation": 4, "test": 3}),
            (10, {"validation": 0.5}, {"validation": 5}),
            (3, {"train": 0.4, "validation": 0.4, "test": 0.2}, {"train": 1, "validation": 1, "test": 1}),
            (10, {"validation": 0.98, "test": 0.02}, {"validation": 9, "test": 1}),
            (2, {"train": 0.5, "validation": 0.3, "test": 0.2}, {"validation": 1, "test": 1}),
            (1, {"train": 0.5, "validation": 0.3, "test": 0.2}, {"validation": 1}),
            (1, {"train": 0.1, "test": 0.9}, {"train": 1}),
            (5, {"validation": 0.01}, {"validation": 1}),
        ],
    )
    def test_shares_become_whole_numbers(self, count: int, shares: dict[str, float], expected: dict[str, int]) -> None:
        assert self.sizes(count, **shares) == expected

    @given(st.integers(1, 100), st.integers(0, 10), st.integers(0, 10), st.integers(0, 10))
    def test_splits_never_overlap_and_every_share_is_served(self, count: int, train: int, validation: int, test: int) -> None:
        if train + validation == 0:
            return
        whole = train + validation + test
        splits = Splits(train=train / whole, validation=validation / whole, test=test / whole)
        drawn = draw_splits(self.HASHES[:count], splits, 1)
        everything = [item for hashes in drawn.values() for item in hashes]
        assert len(everything) == len(set(everything)) == count
        for split, share in ((Split.TRAIN, train), (Split.VALIDATION, validation), (Split.TEST, test)):
            assert bool(drawn[split]) == bool(share) or count < 3
            assert share or not drawn[split]
            assert abs(len(drawn[split]) - share / whole * count) < 2 or count < 3


class TestStrata:
    """Stratified splits give every value its share, and every value that has enough samples a place in each split."""

    SPLITS = Splits(train=0.4, validation=0.4, test=0.2, stratify_by="expected")

    def drawn(self, classes: list[str], splits: Splits = SPLITS, seed: int = 0) -> dict[str, Counter[str]]:
        hashes = [f"{n:064x}" for n in range(len(classes))]
        class_of = dict(zip(hashes, classes, strict=True))
        found = draw_splits(hashes, splits, seed, classes)
        assert {split: len(members) for split, members in found.items()} == split_sizes(len(classes), splits, Counter(classes))
        return {split.value: Counter(class_of[member] for member in members) for split, members in found.items()}

    def test_every_value_has_its_share_of_every_split(self) -> None:
        drawn = self.drawn(["a"] * 100 + ["b"] * 50 + ["c"] * 10)
        assert drawn["train"] == {"a": 40, "b": 20, "c": 4}
        assert drawn["validation"] == {"a": 40, "b": 20, "c": 4}
        assert drawn["test"] == {"a": 20, "b": 10, "c": 2}

    def test_without_strata_a_rare_value_may_be_missing_and_with_them_it_never_is(self) -> None:
        classes = ["common"] * 97 + ["rare"] * 3
        hashes = [f"{n:064x}" for n in range(100)]
        rare = set(hashes[97:])
        by_chance = [draw_splits(hashes, self.SPLITS, seed) for seed in range(20)]
        assert any(not rare & set(members) for drawn in by_chance for members in drawn.values())
        for seed in range(20):
            assert [self.drawn(classes, seed=seed)[split]["rare"] for split in ("train", "validation", "test")] == [1, 1, 1]

    def test_values_too_rare_for_every_split_even_out_the_shares(self) -> None:
        drawn = self.drawn([f"only {n}" for n in range(100)])
        assert {split: members.total() for split, members in drawn.items()} == {"train": 40, "validation": 40, "test": 20}

    def test_shares_that_leave_samples_out_leave_out_the_same_share_of_every_value(self) -> None:
        drawn = self.drawn(["a"] * 60 + ["b"] * 40, Splits(validation=0.3, test=0.2, stratify_by="expected"))
        assert drawn == {"validation": {"a": 18, "b": 12}, "test": {"a": 12, "b": 8}, "train": {}}

    @given(
        st.lists(st.sampled_from("aaaaaabbbcde"), min_size=1, max_size=60),
        st.integers(0, 5),
        st.integers(1, 5),
        st.integers(0, 5),
    )
    def test_whatever_the_values_and_shares(self, classes: list[str], train: int, validation: int, test: int) -> None:
        whole = train + validation + test
        shares = {"train": train / whole, "validation": validation / whole, "test": test / whole}
        needed = [split for split, share in shares.items() if share]
        drawn = self.drawn(classes, Splits(**shares, stratify_by="tags"))
        assert sum((members for members in drawn.values()), Counter()) == Counter(classes)
        for value, count in Counter(classes).items():
            if count >= len(needed):
                assert all(drawn[split][value] for split in needed)
        for split, members in drawn.items():
            assert shares[split] or not members
            assert not shares[split] or members or len(classes) < 3

    def test_it_depends_on_the_seed_and_not_on_the_order_of_the_file(self) -> None:
        hashes, classes = [f"{n:064x}" for n in range(60)], ["a", "b", "c"] * 20
        assert draw_splits(hashes, self.SPLITS, 7, classes) == draw_splits(hashes[::-1], self.SPLITS, 7, classes[::-1])
        assert draw_splits(hashes, self.SPLITS, 7, classes) != draw_splits(hashes, self.SPLITS, 8, classes)

    @pytest.mark.parametrize(
        ("field", "values"),
        [
            ("expected", ['"x"', '{"y":1}', "null"]),
            ("expected.y", ["", "1", ""]),
            ("input.language", ['"de"', '"en"', ""]),
            ("input.deep.er", ["", "[2]", ""]),
            ("tags", ['["a","b"]', '["a","b"]', "[]"]),
        ],
    )
    async def test_the_store_and_a_check_without_one_see_the_same_values(
        self, database: Database, field: str, values: list[str]
    ) -> None:
        given = items(
            {"input": {"language": "de"}, "expected": "x", "tags": ["b", "a"]},
            {"input": {"language": "en", "deep": {"er": [2]}}, "expected": {"y": 1.0}, "tags": ["a", "b", "a"]},
            {"input": 7},
        )
        stored = await ingest(database, given)
        assert await strata_of(Datasets(database), stored.dataset_id, Splits(validation=1, stratify_by=field)) == values
        assert [stratum(item, field) or "" for item in given] == values

    async def test_a_field_that_no_sample_has_is_refused(self, database: Database) -> None:
        stored = await ingest(database, items({"input": {"language": "de"}}))
        with pytest.raises(DatasetError, match=r"stratify_by: no sample has 'input\.lang'; correct the field"):
            await strata_of(Datasets(database), stored.dataset_id, Splits(validation=1, stratify_by="input.lang"))


class TestClustersInTheStore:
    """What counts as one is known from what is stored, also of datasets that were stored before anybody asked."""

    ITEMS = (
        {"id": "a", "input": {"q": 'zwölf \\ \n"', "by": "x"}, "expected": 1, "tags": ["customer:acme"]},
        {"id": "b", "input": {"by": "x", "q": 'zwölf \\ \n"'}, "expected": 1.0, "weight": 3},
        {"id": "c", "input": {"q": 'zwölf \\ \n"', "by": "x"}, "expected": 2, "tags": ["customer:acme", "urgent"]},
        {"id": "d", "input": {"q": "other", "by": ""}, "tags": ["customer=beta"]},
        {"id": "e", "input": {"q": "third"}, "tags": ["urgent"]},
    )

    @pytest.mark.parametrize(
        ("group_by", "first"),
        [
            (None, [0, 0, 2, 3, 4]),
            ("input.q", [0, 0, 0, 3, 4]),
            ("input.by", [0, 0, 0, 3, 4]),
            ("expected", [0, 0, 2, 3, 4]),
            ("tags", [0, 0, 2, 3, 4]),
            ("tags.customer", [0, 0, 0, 3, 4]),
        ],
    )
    async def test_the_store_and_a_check_without_one_find_the_same_clusters(
        self, database: Database, group_by: str | None, first: list[int]
    ) -> None:
        given = items(*self.ITEMS)
        stored = await ingest(database, given)
        asked = spec_building.request(dataset={"items": given, "group_by": group_by})
        assert (await clusters_in(Datasets(database), stored.dataset_id, asked.dataset)).first == first
        members = Members(asked)
        check_items(given, members.look)
        assert members.clusters.first == first

    async def test_a_field_that_groups_nothing_is_refused(self, database: Database) -> None:
        given = items(*self.ITEMS)
        stored = await ingest(database, given)
        for field, named in (("input.qestion", "'input.qestion'"), ("tags.custom", "a tag such as 'custom:…'")):
            with pytest.raises(DatasetError, match=f"dataset.group_by: no sample has {re.escape(named)}"):
                await clusters_in(Datasets(database), stored.dataset_id, Dataset(items=given, group_by=field))

    async def test_the_suites_of_a_run_say_which_samples_count_as_one(self, database: Database) -> None:
        given = [{"id": f"s{n}", "input": {"q": n % 10}} for n in range(60)]
        spec = {
            "name": "copies",
            "configuration": {"x": {"value": 1, "change": "structured", "type": "integer", "min": 0, "max": 9}},
            "target": {"kind": "python", "ref": "my:target"},
            "objective": "exact",
            "optimizer": "none",
            "dataset": {"items": given, "splits": {"train": 0.3, "validation": 0.5, "test": 0.2}},
        }
        stored = await ingest(database, items(*given))
        for racing in (False, True):
            judgement = {"judgement": {"racing": racing}}
            request = PrepareInput(run_id="r", request=OptimizationRequest.model_validate(spec | judgement))
            hashes = await Datasets(database).item_hashes(stored.dataset_id)
            clusters = await clusters_in(Datasets(database), stored.dataset_id, request.request.dataset)
            plan = plan_evaluation(request, stored.dataset_id, hashes, None, clusters)
            assert plan.sizes == {Split.VALIDATION: 30, Split.TEST: 12, Split.TRAIN: 18}
            assert plan.counting == {Split.VALIDATION: 5, Split.TEST: 2, Split.TRAIN: 3}
            assert plan.search.suite.clusters is not None
            content = dict(zip(hashes, [n % 10 for n in range(60)], strict=True))
            asked = [content[item_hash] for item_hash in plan.search.item_hashes]
            assert len(set(asked[:6])) == (1 if racing else 5)
            assert [asked[first] for first in plan.search.suite.clusters] == asked

    async def test_of_a_trial_of_few_samples_each_says_something_else(self, database: Database) -> None:
        given = [{"id": f"s{n}", "input": n % 10} for n in range(60)]
        hashes = [f"{n:064x}" for n in range(60)]
        spec = {
            "name": "few",
            "configuration": {"x": {"value": 1, "change": "structured", "type": "integer", "min": 0, "max": 9}},
            "target": {"kind": "python", "ref": "my:target"},
            "objective": "exact",
            "optimizer": "none",
            "dataset": {"items": given, "splits": "none"},
            "samples_per_trial": 10,
            "judgement": {"racing": True},
        }
        request = PrepareInput(run_id="r", request=OptimizationRequest.model_validate(spec))
        plan = plan_evaluation(request, "d" * 64, hashes, None, clusters_of([n % 10 for n in range(60)]))
        assert plan.counting == {Split.ALL: 10}
        assert plan.search.suite.clusters is None
