"""Files of samples in the messages of a chat, and as other targets read them."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from activities.datasets import ingest
from activities.targets.attached_files import AttachedFiles, attached, attached_to_reader, with_contents, with_data_urls
from activities.targets.faults import NotSent
from ratchet import Sample
from ratchet._files import FileReference, data_url
from store.connection import Database
from store.read.reader import StoreReader
from store.read.sample_files import FileReader, StoredFile
from tests.support.pictures import png
from workflows.rules.decisions.call_bounds import TOKENS_OF_AN_IMAGE, chat_bound


def stored(media_type: str, content: bytes) -> tuple[FileReference, StoredFile]:
    return FileReference(sha256(content).hexdigest(), media_type, len(content)), StoredFile(media_type, content)


PICTURE, PAPER, NOTE = stored("image/png", png()), stored("application/pdf", b"%PDF-1"), stored("text/plain", b"{{input.x}}")
PICTURE_PART = {"type": "image_url", "image_url": {"url": data_url("image/png", png())}}


def test_a_file_is_a_part_where_the_text_names_it_and_a_text_file_is_text() -> None:
    files = AttachedFiles(dict([PICTURE, PAPER, NOTE]))
    given = files.marked({"a": PICTURE[0].as_json(), "b": [PAPER[0].as_json()], "c": NOTE[0].as_json()})
    (plain, sent, spliced) = files.sent(
        [
            {"role": "system", "content": "Look."},
            {"role": "user", "content": f"See {given['a']}\n{given['b'][0]} and {given['c']}"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": given["a"], "detail": "low"}}]},
        ]
    )
    assert plain == {"role": "system", "content": "Look."}
    name = f"{PAPER[0].digest[:12]}.pdf"
    assert sent["content"] == [
        {"type": "text", "text": "See "},
        PICTURE_PART,
        {"type": "file", "file": {"filename": name, "file_data": data_url("application/pdf", b"%PDF-1")}},
        {"type": "text", "text": " and {{input.x}}"},
    ]
    assert spliced["content"][0]["image_url"] == {**PICTURE_PART["image_url"], "detail": "low"}  # type: ignore[dict-item]


def test_no_text_can_name_a_file() -> None:
    first, second = AttachedFiles(dict([PICTURE])), AttachedFiles(dict([PICTURE]))
    forged = [{"role": "user", "content": str(first.marked(PICTURE[0].as_json()))}]
    assert second.sent(forged) == forged


async def test_what_python_and_http_targets_and_proposers_get(database: Database, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(9))
    (tmp_path / "b.txt").write_text("Nine.")
    named = {"picture": {"$file": "a.png"}, "note": {"$file": "b.txt"}}
    (tmp_path / "items.jsonl").write_text(json.dumps({"input": named}))
    stored = await ingest(database, tmp_path / "items.jsonl")
    (row,) = await StoreReader(database).datasets.samples(stored.dataset_id)
    sample, files = Sample("s", row.input), FileReader(database)

    assert (await with_contents(files, sample)).file("picture").read() == png(9)
    assert await with_data_urls(files, sample.input) == [{"picture": data_url("image/png", png(9)), "note": "Nine."}]

    shown = await attached_to_reader(files, [sample.input], 4)
    again = await attached_to_reader(files, [sample.input], 4)
    marked = shown.marked(sample.input)
    assert marked == again.marked(row.input), "a request that is repeated is the same one"
    (sent,) = shown.sent([{"role": "user", "content": marked["picture"]}])
    assert sent["content"][0]["image_url"]["url"] == data_url("image/png", png(9))
    assert (await attached_to_reader(files, [sample.input], 0)).marked(row.input) == row.input

    gone = {"picture": {"$file": f"sha256:{'0' * 64}", "type": "image/png", "bytes": 1}}
    with pytest.raises(NotSent, match="is not in the store; add its dataset again"):
        await attached(files, gone)


async def test_a_chat_model_is_sent_no_file_that_it_cannot_take(database: Database, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00")
    (tmp_path / "items.jsonl").write_text(json.dumps({"input": {"$file": "a"}}))
    stored = await ingest(database, tmp_path / "items.jsonl")
    (row,) = await StoreReader(database).datasets.samples(stored.dataset_id)
    with pytest.raises(NotSent, match="is application/octet-stream; chat models take image/png"):
        await attached(FileReader(database), row.input)


def test_a_picture_is_not_counted_as_text_in_what_a_call_can_take() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    large = {"role": "user", "content": [*message["content"], {"type": "image_url", "image_url": {"url": "x" * 9_000_000}}]}
    less, more = (chat_bound({"messages": [one]}, None).tokens for one in (message, large))
    assert more - less == TOKENS_OF_AN_IMAGE


def test_a_python_target_reads_a_file_by_its_place() -> None:
    contents = {PICTURE[0].digest: b64encode(png()).decode()}
    sample = Sample("s", {"pages": [PICTURE[0].as_json()], "text": "x"}, files=contents)
    assert (sample.file("pages.0").read(), sample.file("pages.0").type) == (png(), "image/png")
    with pytest.raises(KeyError, match="'text' of the input is no file"):
        sample.file("text")
    with pytest.raises(KeyError, match="the input has no 'picture'"):
        sample.file("picture")
