"""Files that samples name: taken in by content, bounded, and read from the dataset's folder only."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from activities.datasets import DatasetError, InlineItems, check_items, ingest
from activities.datasets.file_folders import LARGEST_FILE_MB
from activities.datasets.sample_files import media_type_of
from ratchet._files import FileReference
from store.connection import Database
from store.read.reader import StoreReader
from store.read.sample_files import FileReader
from store.write.datasets import Datasets
from tests.support.pictures import png
from workflows.model.spec.dataset import Item

KINDS = {
    "image/png": png(),
    "image/jpeg": b"\xff\xd8\xff\xe0rest",
    "image/gif": b"GIF89arest",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ",
    "application/pdf": b"%PDF-1.7 rest",
    "text/plain": "<svg>ä</svg>".encode(),
    "application/octet-stream": b"MZ\x00\x01",
}


def dataset(folder: Path, *named: Any, name: str = "items.jsonl") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("".join(json.dumps({"input": {"n": n, "file": {"$file": one}}}) + "\n" for n, one in enumerate(named)))
    return path


def test_a_file_is_what_it_holds_whatever_it_is_called() -> None:
    assert {kind: media_type_of(content) for kind, content in KINDS.items()} == {kind: kind for kind in KINDS}


def test_a_sample_is_another_one_when_its_file_is(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    (tmp_path / "b.txt").write_bytes(png(1))
    first = check_items(dataset(tmp_path, "a.png"))
    renamed = check_items(dataset(tmp_path, "b.txt"))
    (tmp_path / "a.png").write_bytes(png(2))
    assert first.dataset_id == renamed.dataset_id != check_items(dataset(tmp_path, "a.png")).dataset_id
    (reference,) = renamed.files
    assert reference == FileReference(sha256(png(1)).hexdigest(), "image/png", len(png(1)))


def test_inline_items_find_their_files_in_the_folder_of_the_spec(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    items = [Item(input={"n": 0, "file": {"$file": "a.png"}})]
    assert check_items(InlineItems(items, folder=tmp_path)) == check_items(dataset(tmp_path, "a.png"))
    with pytest.raises(DatasetError, match=r"^items\[0\]: input\.file: file 'a\.png' lies beside no dataset"):
        check_items(items)


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ("gone.png", "is not in the dataset's folder; copy it there"),
        ("../secret", "leads out of the dataset's folder"),
        ("link", "leads out of the dataset's folder"),
        ("/etc/passwd", "leads out of the dataset's folder"),
        ("x" * 5000, "is not a usable path"),
        (7, "is no path; write"),
        ("large", f"has more than {LARGEST_FILE_MB} MB; make it smaller"),
    ],
)
def test_what_cannot_be_taken_in_is_told_by_place_and_others_do_not_read_its_name(
    tmp_path: Path, named: Any, wrong: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    with (folder / "large").open("wb") as large:
        large.truncate(LARGEST_FILE_MB * 1024 * 1024 + 1)
    with pytest.raises(DatasetError) as refused:
        check_items(dataset(folder, named))
    assert str(refused.value).startswith("items.jsonl line 1: input.file: file ")
    assert wrong in str(refused.value) and wrong in refused.value.unquoted
    assert str(named) not in refused.value.unquoted


def test_the_files_count_towards_the_size_of_the_dataset(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 700_000)
    (tmp_path / "b").write_bytes(b"y" * 700_000)
    assert check_items(dataset(tmp_path, "a", "a"), largest_mb=1).count == 2
    with pytest.raises(DatasetError, match="its items and their files have more than 1 MB"):
        check_items(dataset(tmp_path, "a", "b"), largest_mb=1)


async def test_files_are_kept_as_long_as_a_dataset_names_them(database: Database, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(3))
    (tmp_path / "b.png").write_bytes(png(4))
    both = await ingest(database, dataset(tmp_path, "a.png", "b.png"))
    files, datasets = FileReader(database), Datasets(database)
    a, b = (sha256(png(shade)).hexdigest() for shade in (3, 4))
    (shown, _) = await StoreReader(database).datasets.samples(both.dataset_id)
    named = {"$file": f"sha256:{a}", "type": "image/png", "bytes": len(png(3))}
    assert shown.input == {"n": 0, "file": named}
    by_hash = await ingest(database, [Item(input={"n": 7, "file": named})])
    assert await datasets.delete(both.dataset_id)
    assert await files.load(b) is None
    kept = await files.load(a)
    assert kept is not None and (kept.media_type, kept.content) == ("image/png", png(3))
    assert await datasets.delete(by_hash.dataset_id)
    with pytest.raises(DatasetError, match=r"no image/png of .* is in the store; give the file's path"):
        await ingest(database, [Item(input={"n": 7, "file": named})])
