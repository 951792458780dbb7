"""Datasets: addressed by content, checked line by line, split by seed, and read only where a worker may read."""

from __future__ import annotations

import asyncio
import json
import re
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.datasets import DatasetError, Ingested, check_items, draw_splits, ingest, split_sizes, worker_file
from activities.datasets.run_dataset import clusters_in, strata_of
from activities.preparing.evaluation_plan import plan_evaluation
from clients.checks.copies import Members
from store.connection import Database
from store.read.reader import StoreReader
from store.schema import StoreError
from store.write.datasets import Datasets
from tests.support import spec_building
from workflows.model.run.contract import PrepareInput
from workflows.model.spec.dataset import Dataset, Item, Splits
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split
from workflows.rules.scoring.clusters import clusters_of
from workflows.rules.scoring.slices import stratum


def items(*values: dict[str, Any]) -> list[Item]:
    return [Item.model_validate(value) for value in values]


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(*lines: str | bytes, name: str = "tickets.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
        return path

    return write


class TestContent:
    """The hash of a dataset is the hash of what it holds."""

    def test_a_file_and_the_same_items_inline_are_one_dataset(self, write: Any) -> None:
        path = write('{"input": {"b": 1, "a": 2.0}, "expected": "x"}', "", '{"input": "zwei", "tags": ["t"], "weight": 2}')
        inline = items({"input": {"a": 2, "b": 1}, "expected": "x"}, {"input": "zwei", "tags": ["t"], "weight": 2.0})
        assert check_items(path) == check_items(inline)

    def test_copies_are_dropped_and_counted(self) -> None:
        survey = check_items(items({"input": 1}, {"input": 2}, {"input": 1.0}, {"input": 1, "weight": 1}))
        assert (survey.count, survey.duplicates_dropped) == (2, 2)
        assert survey.dataset_id == check_items(items({"input": 1}, {"input": 2})).dataset_id

    def test_equal_content_under_two_ids_is_two_samples(self) -> None:
        assert check_items(items({"id": "a", "input": 1}, {"id": "b", "input": 1}, {"id": "a", "input": 1})).count == 2

    def test_one_id_for_two_contents_is_an_error(self) -> None:
        with pytest.raises(DatasetError, match=r"items\[1\]: id 'a' was used before for another content"):
            check_items(items({"id": "a", "input": 1}, {"id": "a", "input": 2}))

    @pytest.mark.parametrize("change", [{"input": 2}, {"expected": "y"}, {"weight": 2}, {"tags": ["other"]}, {"id": "me"}])
    def test_anything_that_a_target_or_scorer_can_tell_apart_changes_the_hash(self, change: dict[str, Any]) -> None:
        item = {"input": 1, "expected": "x", "weight": 1, "tags": ["tag"]}
        assert check_items(items(item)).dataset_id != check_items(items({**item, **change})).dataset_id

    def test_the_order_of_items_is_part_of_the_dataset(self) -> None:
        one, other = {"input": 1}, {"input": 2}
        assert check_items(items(one, other)).dataset_id != check_items(items(other, one)).dataset_id

    def test_line_ends_a_byte_order_mark_and_empty_lines_change_nothing(self, write: Any) -> None:
        plain = check_items(write('{"input": 1}', '{"input": 2}'))
        dressed = check_items(write(b'\xef\xbb\xbf{"input": 1}\r', "  ", '{"input": 2}\r', "", name="other.jsonl"))
        assert plain == dressed


class TestStoring:
    """Ingesting stores what was read, once."""

    async def test_samples_come_back_as_they_were(self, database: Database, reader: StoreReader, write: Any) -> None:
        path = write(
            '{"id": "t1", "input": {"ticket": "é"}, "expected": ["x"], "weight": 2.5, "tags": ["a", "b"]}', '{"input": null}'
        )
        stored = await ingest(database, path)
        first, second = await reader.datasets.samples(stored.dataset_id)
        assert (first.item_id, first.input, first.expected) == ("t1", {"ticket": "é"}, ["x"])
        assert (first.weight, first.tags) == (2.5, ("a", "b"))
        assert (second.input, second.expected, second.item_id) == (None, None, second.item_hash[:16])
        [listed] = await reader.datasets.all()
        assert (listed.name, listed.count, listed.runs) == ("tickets.jsonl", 2, 0)

    async def test_ingesting_again_changes_nothing_even_at_the_same_time(self, database: Database, reader: StoreReader) -> None:
        many = items(*({"input": n} for n in range(2500)))
        stored = await asyncio.gather(*(ingest(database, many) for _ in range(5)))
        assert set(stored) == {Ingested(stored[0].dataset_id, 2500)}
        assert len(await reader.datasets.samples(stored[0].dataset_id, limit=10_000)) == 2500

    async def test_a_dataset_that_is_wrong_somewhere_leaves_nothing_behind(
        self, database: Database, reader: StoreReader, write: Any
    ) -> None:
        with pytest.raises(DatasetError, match="line 2001"):
            await ingest(database, write(*(f'{{"input": {n}}}' for n in range(2000)), '{"inputt": 1}'))
        assert await reader.datasets.all() == []

    async def test_twenty_thousand_rows_take_bounded_time_and_memory(
        self, database: Database, reader: StoreReader, write: Any
    ) -> None:
        path = write(*(json.dumps({"input": {"ticket": f"{n} " * 200}, "expected": "x"}) for n in range(20_000)))
        size = path.stat().st_size
        started = time.process_time()
        stored = await ingest(database, path)
        elapsed = time.process_time() - started
        assert stored.count == 20_000
        assert elapsed < 15, f"{elapsed:.1f} s of CPU"
        tracemalloc.start()
        check_items(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < size / 3, f"{peak:,} of {size:,} bytes"

    async def test_a_dataset_can_be_deleted_until_a_run_uses_it(
        self, database: Database, example: Any, reader: StoreReader
    ) -> None:
        unused = await ingest(database, items({"input": 1}))
        run = await example.open()
        assert await Datasets(database).delete(unused.dataset_id)
        assert not await Datasets(database).delete(unused.dataset_id)
        with pytest.raises(StoreError, match="is used by run 'triage-1'"):
            await Datasets(database).delete(run.suite.dataset_id)


MALFORMED: list[tuple[str, str | bytes, str]] = [
    ("no JSON at all", "input: 1", r"is not JSON \(.* at column 1\): input: 1; write one JSON object per line"),
    ("cut off", '{"input": "x', r"is not JSON \(Invalid control character"),
    ("two on one line", '{"input": 1} {"input": 2}', r"is not JSON \(Extra data at column 14\)"),
    ("a pretty-printed list", "[", r"JSONL has one whole item per line, without a list around them"),
    ("a list", "[1, 2]", r"\[1, 2\] is not an item; write an object such as"),
    ("a bare text", '"hello"', r'"hello" is not an item'),
    ("no input", '{"expected": 1}', r"input: is missing; add it"),
    ("a misspelt key", '{"input": 1, "expcted": 2}', r"expcted: is not a known field; did you mean expected\?"),
    ("a weight of zero", '{"input": 1, "weight": 0}', r"weight: .*0 \(is 0\)"),
    ("a weight in words", '{"input": 1, "weight": "heavy"}', r'weight: .*number.* \(is "heavy"\)'),
    ("an endless weight", '{"input": 1, "weight": 1e999}', r"weight: must be a finite number"),
    ("tags in one text", '{"input": 1, "tags": "a,b"}', r'tags: .*list \(is "a,b"\)'),
    ("a tag that is a number", '{"input": 1, "tags": [7]}', r"tags\[0\]: .* \(is 7\)"),
    ("an id that is a number", '{"input": 1, "id": 7}', r"id: .* \(is 7\)"),
    ("an empty id", '{"input": 1, "id": ""}', r"id: .*(empty|at least 1)"),
    ("an id that is too long", json.dumps({"input": 1, "id": "x" * 201}), r"id: .*200"),
    ("NaN", '{"input": NaN}', r"NaN is not a JSON number; write a finite number or null"),
    ("infinity", '{"input": {"x": -Infinity}}', r"-Infinity is not a JSON number"),
    ("a number that overflows", '{"input": 1e999}', r"input: .*not a finite number"),
    ("a NUL character", '{"input": "a\\u0000b"}', r"input: text contains a NUL character; remove it"),
    ("a lone surrogate", '{"input": "\\ud800"}', r"input: text contains a lone surrogate at position 0; remove it"),
    ("a NUL in a tag", '{"input": 1, "tags": ["\\u0000"]}', r"text contains a NUL character"),
    ("a key twice", '{"input": 1, "input": 2}', r"key 'input' is there twice in one object; keep one"),
    ("keys that become equal", '{"input": {"\\u00e9": 1, "e\\u0301": 2}}', r"two keys are both 'é'"),
    ("another encoding", '{"input": "é"}'.encode("latin-1"), r"byte 12 is not UTF-8; save the file as UTF-8"),
    ("a nest without end", "[" * 100_000, r"nested too deeply; flatten it|is not JSON"),
    ("a deep nest", '{"input": ' + "[" * 700 + "]" * 700 + "}", r"nested .*; flatten it"),
]


class TestMalformedLines:
    """Every message names the line, what is there, and what to do."""

    @pytest.mark.parametrize(("line", "message"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED])
    def test_it_says_where_and_what(self, write: Any, line: str | bytes, message: str) -> None:
        with pytest.raises(DatasetError, match=message) as caught:
            check_items(write('{"input": "fine"}', "", line, '{"input": "fine too"}'))
        assert str(caught.value).startswith("tickets.jsonl line 3: ")
        assert len(str(caught.value)) < 600

    def test_an_empty_file_is_no_dataset(self, write: Any) -> None:
        with pytest.raises(DatasetError, match=r"tickets\.jsonl is empty; give at least one sample"):
            check_items(write("", "  ", ""))

    def test_a_line_longer_than_memory_allows_is_not_read_to_its_end(self, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("activities.datasets.text_lines.LONGEST", 1000)
        with pytest.raises(DatasetError, match="line 1: is longer than 1,000 bytes"):
            check_items(write(json.dumps({"input": "x" * 2000})))

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "folder.jsonl").mkdir()
        with pytest.raises(DatasetError, match=r"folder\.jsonl cannot be read: Is a directory"):
            check_items(tmp_path / "folder.jsonl")

    def test_an_id_that_comes_again_for_something_else_is_found_lines_later(self, write: Any) -> None:
        with pytest.raises(
            DatasetError, match=r"line 3: id 'a' was used before for another content; give each item its own id"
        ):
            check_items(write('{"id": "a", "input": 1}', '{"id": "b", "input": 1}', '{"id": "a", "input": 2}'))


class TestPaths:
    """A worker reads inside its data directory and nowhere else."""

    @pytest.fixture
    def data(self, tmp_path: Path) -> Path:
        (tmp_path / "data" / "deep").mkdir(parents=True)
        (tmp_path / "data" / "deep" / "tickets.jsonl").write_text('{"input": 1}')
        (tmp_path / "secret.jsonl").write_text('{"input": 1}')
        (tmp_path / "data" / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
        (tmp_path / "data" / "out").symlink_to(tmp_path)
        (tmp_path / "data" / "circle").symlink_to(tmp_path / "data" / "circle")
        (tmp_path / "data-of-others").mkdir()
        (tmp_path / "data-of-others" / "x.jsonl").write_text("")
        return tmp_path / "data"

    @pytest.mark.parametrize("path", ["deep/tickets.jsonl", "deep/../deep/tickets.jsonl", "./deep/tickets.jsonl"])
    def test_what_is_inside_is_found(self, data: Path, path: str) -> None:
        assert worker_file(path, data) == data / "deep" / "tickets.jsonl"
        assert worker_file(str(data / path), data) == data / "deep" / "tickets.jsonl"

    @pytest.mark.parametrize(
        "path",
        [
            "../secret.jsonl",
            "deep/../../secret.jsonl",
            "/etc/passwd",
            "link.jsonl",
            "out/secret.jsonl",
            "../data-of-others/x.jsonl",
            "../missing.jsonl",
        ],
    )
    def test_what_leads_out_is_refused_whether_it_is_there_or_not(self, data: Path, path: str) -> None:
        with pytest.raises(DatasetError, match="leads outside RATCHET_DATA_DIR; name a file inside it"):
            worker_file(path, data)

    @pytest.mark.parametrize("path", ["missing.jsonl", "deep", ".", "circle"])
    def test_what_is_no_file_is_named(self, data: Path, path: str) -> None:
        with pytest.raises(DatasetError, match=r"there is no file|is not a usable path"):
            worker_file(path, data)

    @pytest.mark.parametrize("path", ["a\x00b", "x" * 5000])
    def test_what_is_no_path_is_refused(self, data: Path, path: str) -> None:
        with pytest.raises(DatasetError, match=r"is not a usable path|there is no file"):
            worker_file(path, data)

    def test_without_a_data_directory_nothing_is_read(self, data: Path) -> None:
        with pytest.raises(DatasetError, match=r"this worker reads no files; set RATCHET_DATA_DIR .* give dataset\.id"):
            worker_file("deep/tickets.jsonl", None)


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
