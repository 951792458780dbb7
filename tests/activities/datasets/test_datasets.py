"""Datasets: addressed by content, checked line by line, split by seed, and read only where a worker may read."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from activities.datasets import DatasetError, Ingested, check_items, ingest, worker_file
from store.connection import Database
from store.read.reader import StoreReader
from store.schema import StoreError
from store.write.datasets import Datasets
from tests.support.dataset_items import items


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
