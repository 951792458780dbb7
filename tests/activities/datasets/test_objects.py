"""Datasets in S3, over HTTP from a real server: read once, with credentials of the environment, refused with the reason."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.datasets import DatasetError, ObjectSource, SourceAway, check_items, ingest, source_of
from activities.endpoints.endpoint_policy import OperatorLists
from activities.settings import DatasetSettings, OperatorSettings
from store.connection import Database
from store.read.reader import StoreReader
from tests.support.dataset_files import FORMATS, tickets
from tests.support.object_store import ObjectStore, object_store
from tests.support.pictures import png
from workflows.model.spec.dataset import Dataset


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("objects") / "buckets") as store:
        yield store


@pytest.fixture
def s3(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """The server as the environment names it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


def source(url: str, **options: Any) -> Any:
    return source_of(Dataset.model_validate({"path": url, **options}), lambda path: Path(path), DatasetSettings())


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_the_dataset_that_its_file_is(s3: ObjectStore, tmp_path: Path, form: str) -> None:
    file = tickets(tmp_path, form)
    url = s3.put("sets", f"deep/er/tickets.{form}", file.read_bytes())
    assert check_items(source(url)) == check_items(file)
    assert check_items(source(s3.put("sets", "as-it-is-called", file.read_bytes()), format=form)) == check_items(file)


async def test_it_is_stored_under_the_objects_name(s3: ObjectStore, database: Database, reader: StoreReader) -> None:
    url = s3.put("sets", "more/questions.jsonl", b'{"input": 1}\n{"input": 2}')
    stored = await ingest(database, source(url))
    [listed] = await reader.datasets.all()
    assert (listed.dataset_id, listed.name, listed.count) == (stored.dataset_id, "questions.jsonl", 2)


def test_each_split_may_be_an_object_of_its_own(s3: ObjectStore, tmp_path: Path) -> None:
    rows = {split: f"q,label\n{split} 1,a\n{split} 2,b\n".encode() for split in ("train", "test")}
    paths = {split: s3.put("sets", f"glue/{split}/data.csv", text) for split, text in rows.items()}
    given = source_of(Dataset.model_validate({"paths": paths}), lambda path: Path(path), DatasetSettings())
    assert [(where, item.split) for where, item in given.items()] == [
        ("dataset.paths.train: data.csv line 2", "train"),
        ("dataset.paths.train: data.csv line 3", "train"),
        ("dataset.paths.test: data.csv line 2", "test"),
        ("dataset.paths.test: data.csv line 3", "test"),
    ]
    mixed = {"train": paths["train"], "test": "test.csv"}
    (tmp_path / "test.csv").write_bytes(rows["test"])
    local = source_of(Dataset.model_validate({"paths": mixed}), lambda path: tmp_path / path, DatasetSettings())
    assert check_items(local) == check_items(given)
    gone = {**paths, "test": "s3://sets/glue/nothing.csv"}
    with pytest.raises(DatasetError, match=r"^dataset\.paths\.test: there is no object 'glue/nothing.csv' in bucket 'sets'"):
        check_items(source_of(Dataset.model_validate({"paths": gone}), lambda path: Path(path), DatasetSettings()))


async def test_the_files_of_its_samples_lie_beside_it_where_the_operator_lists_them(
    s3: ObjectStore, database: Database, reader: StoreReader
) -> None:
    s3.put("sets", "seen/a b.png", png(6))
    s3.put("sets", "secret.png", png(7))
    lists = OperatorLists(OperatorSettings(objects=("s3://sets/seen/",)))

    def items(*named: str) -> Any:
        url = s3.put(
            "sets", "seen/items.jsonl", "".join(json.dumps({"input": {"$file": one}}) + "\n" for one in named).encode()
        )
        return source_of(
            Dataset.model_validate({"path": url}), lambda path: Path(path), DatasetSettings(), refuse_object=lists.refuse_object
        )

    stored = await ingest(database, items("a b.png"))
    (sample,) = await reader.datasets.samples(stored.dataset_id)
    kept = await reader.files.load(sample.input["$file"].removeprefix("sha256:"))
    assert kept is not None and (kept.media_type, kept.content) == ("image/png", png(6))
    refusals = {
        "../secret.png": "leads out of the dataset's folder",
        "/secret.png": "leads out of the dataset's folder",
        "gone.png": "cannot be read: there is no object 'seen/gone.png' in bucket 'sets'",
    }
    for named, wrong in refusals.items():
        with pytest.raises(DatasetError) as refused:
            check_items(items(named))
        assert str(refused.value).startswith(f"items.jsonl line 1: input: file {named!r} {wrong}")
    lists = OperatorLists(OperatorSettings(objects=("s3://sets/seen/items.jsonl",)))
    with pytest.raises(DatasetError, match=r"may not be read: this worker reads no object s3://sets/seen/a b\.png"):
        check_items(items("a b.png"))


def test_nothing_of_it_stays_on_this_machine(s3: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    url = s3.put("sets", "x.jsonl", b'{"input": 1}\n{"wrong": 2}')
    with pytest.raises(DatasetError, match=r"x\.jsonl line 2: input: is missing"):
        check_items(source(url))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://sets/missing.jsonl", r"there is no object 'missing\.jsonl' in bucket 'sets'; correct the path"),
        ("s3://no-such-bucket/x.jsonl", r"there is no object 'x\.jsonl' in bucket 'no-such-bucket'"),
        ("s3://Not_A_Bucket!/x.jsonl", r"'Not_A_Bucket!' is no name of a bucket; correct the path"),
        ("s3://sets/x.docx", r"x\.docx: its ending does not say what it is; say so with dataset\.format"),
    ],
)
def test_what_is_not_there_is_said(s3: ObjectStore, path: str, message: str) -> None:
    s3.put("sets", "there.jsonl", b'{"input": 1}')
    with pytest.raises(DatasetError, match=message):
        check_items(source(path))


def test_wrong_credentials_are_said_and_not_shown(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.put("sets", "x.jsonl", b'{"input": 1}')
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    with pytest.raises(DatasetError, match="is not allowed to the credentials of this process") as caught:
        check_items(source(url))
    assert "hunter2" not in str(caught.value)


def test_without_credentials_it_is_said_which_are_needed(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(DatasetError, match=r"there are no credentials .* set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        check_items(ObjectSource("s3://sets/x.jsonl"))


@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"])
def test_a_server_that_does_not_answer_is_worth_another_try(
    s3: ObjectStore, monkeypatch: pytest.MonkeyPatch, answer: bytes | None
) -> None:
    monkeypatch.setattr("activities.datasets.objects.ATTEMPTS", 1)
    with _answering(answer) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(SourceAway, match=r"s3://sets/x\.jsonl cannot be fetched now"):
            check_items(source("s3://sets/x.jsonl"))


def test_a_server_that_is_not_there_is_worth_another_try(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activities.datasets.objects.ATTEMPTS", 1)
    with _answering(None) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    with pytest.raises(
        SourceAway, match=r"s3://sets/x\.jsonl cannot be fetched now: (Could not connect|Connection was closed)"
    ):
        check_items(source("s3://sets/x.jsonl"))


class _answering:
    """A server that hangs up, or gives one answer to whoever asks."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer

    def __enter__(self) -> str:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller:
                caller.recv(65536)
                if self._answer is not None:
                    caller.sendall(self._answer)
