"""Hostile names are refused in full before anything is touched, and the folder's store leads nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from ratchet.prompts import InvalidName, Overrides, OverrideStore, PromptTemplate, StoreRefused, open_store
from ratchet.prompts.names import MOST_SEGMENTS, checked_identifier, checked_name, checked_tag
from tests.support.prompt_examples import NAME, moved, template
from tests.support.prompt_places import Place

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")

SEGMENTS = [
    *("", ".", "..", "...", ".hidden", "-rf", "_private", "a" * 65, "a" * 5000, "A", "Support"),
    *(
        "a b",
        "a\n",
        "\na",
        "a\r",
        "a\t",
        "a\x00",
        "a\x00.json",
        "a\x7f",
        "a\\b",
        "a:b",
        "a*",
        "a?",
        "~",
        "$HOME",
        "%2e%2e",
        "a;b",
    ),
    *(
        "caf\u00e9",
        "cafe\u0301",
        "\u0430bc",
        "a\u202egnp",
        "a\u200b",
        "\ufeffa",
        "\uff41",
        "a\u2028",
        "\u0131",
        "a\u2024json",
        "\u2460",
    ),
    *("{a}", "{{input.a}}", "<b>", "'", '"', "a'--", "\ud800"),
]
NAMES = ["triage", "/support/triage", "support/triage/", "support//triage", "../triage", "support/../../etc/passwd"]
NAMES += ["/etc/passwd", "support\\..\\triage", "/".join("abcdefghi"), "support/triage.json", "support.json/triage"]


def content(place: Place) -> Any:
    """Everything that is kept at a place."""
    match place.kind:
        case "file":
            root = Path(place.url.removeprefix("file:"))
            return sorted((file.relative_to(root).as_posix(), file.lstat().st_mtime_ns) for file in root.parent.rglob("*")
                          if file.is_relative_to(root))  # fmt: skip
        case "redis":
            client: Redis = Redis.from_url(place.url)
            return {key: client.dump(key) for key in client.scan_iter()}
        case "s3":
            bucket = place.url.removeprefix("s3://").partition("/")[0]
            listed = boto3.client("s3", region_name="us-east-1").list_objects_v2(Bucket=bucket)
            return {entry["Key"]: entry["ETag"] for entry in listed.get("Contents", [])}
    return None


async def rows(place: Place) -> Any:
    if place.kind != "postgres":
        return None
    connection = await asyncpg.connect(place.url)
    try:
        tables = ("prompt_templates", "prompt_changes", "prompt_tags", "prompt_versions")
        return [await connection.fetch(f"SELECT t::text FROM {table} t ORDER BY 1") for table in tables]
    finally:
        await connection.close()


async def test_hostile_names_and_tags_are_refused_before_anything_is_touched(place: Place, store: OverrideStore) -> None:
    await store.seed(template())
    before = (content(place), await rows(place))

    def with_name(name: str) -> PromptTemplate:
        return template().model_copy(update={"name": name})

    by_name: list[Callable[[str], Awaitable[object]]] = [
        lambda name: store.seed(with_name(name)),
        lambda name: store.store(with_name(name), Overrides(), tag="stable", expected=None),
        lambda name: store.resolve(name, tag="stable"),
        lambda name: store.delete(name, tag="stable", expected=1),
        lambda name: store.copy_tag(name, source="stable", tag="canary", expected=None),
        lambda name: store.diff(name, "stable", "stable"),
        lambda name: store.list_tags(name),
        lambda name: store.history(name, "stable"),
        lambda name: store.versions(name),
        lambda name: store.current(name, "stable"),
    ]
    by_tag: list[Callable[[str], Awaitable[object]]] = [
        lambda tag: store.seed(template(), tag=tag),
        lambda tag: moved(store, "x", None, tag=tag),
        lambda tag: store.resolve(NAME, tag=tag),
        lambda tag: store.delete(NAME, tag=tag, expected=1),
        lambda tag: store.copy_tag(NAME, source=tag, tag="canary", expected=None),
        lambda tag: store.copy_tag(NAME, source="stable", tag=tag, expected=None),
        lambda tag: store.diff(NAME, "stable", tag),
        lambda tag: store.history(NAME, tag),
        lambda tag: store.current(NAME, tag),
    ]
    for name in [*NAMES, *(f"{each}/triage" for each in SEGMENTS), *(f"support/{each}" for each in SEGMENTS)]:
        for call in by_name:
            with pytest.raises(InvalidName):
                await call(name)
    for tag in [*SEGMENTS, "a/b", "../stable", "v1.0.0", "01.0.0", "1.0.0\n"]:
        for call in by_tag:
            with pytest.raises(InvalidName):
                await call(tag)

    assert (content(place), await rows(place)) == before


@given(st.text(max_size=70) | st.from_regex(IDENTIFIER) | st.from_regex(r"[a-z0-9._/-]{1,70}"))
def test_only_identifiers_are_identifiers(text: str) -> None:
    allowed = IDENTIFIER.match(text) is not None
    assert accepts(lambda: checked_identifier(text, "tag")) is allowed
    segments = [IDENTIFIER.match(segment) is not None and not segment.endswith(".json") for segment in text.split("/")]
    assert accepts(lambda: checked_name(f"support/{text}")) is (all(segments) and len(segments) < MOST_SEGMENTS)


def accepts(check: Callable[[], object]) -> bool:
    try:
        check()
    except InvalidName:
        return False
    return True


@pytest.mark.parametrize("tag", ["1.0.0", "v1.0.0", "0.0.1", "v10.2.33", "source"])
def test_what_stands_for_something_else_is_no_tag(tag: str) -> None:
    with pytest.raises(InvalidName, match=r"reads like a version|stands for the template"):
        checked_tag(tag)


@pytest.mark.parametrize(
    "planted",
    ["support", "support/triage", "support/triage/.history", "support/triage/.versions", "support/triage/.templates"],
)
async def test_a_folder_that_is_a_symbolic_link_is_not_entered(tmp_path: Path, planted: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "prompts"
    async with await open_store(f"file:{root}") as store:
        await store.seed(template())
        (root / planted).mkdir(exist_ok=True)
        (root / planted).rename(outside)
        (root / planted).symlink_to(outside)
        before = tree(outside), tree(root)

        with pytest.raises(StoreRefused, match=r"leads through a symbolic link.*remove it"):
            await moved(store, "Elsewhere.", 1, version="1.0.1")
        assert (tree(outside), tree(root)) == before


@pytest.mark.parametrize("planted", ["support/triage/stable.json", ".lock"])
@pytest.mark.parametrize("to_what", ["file", "nothing"])
async def test_a_file_that_is_a_symbolic_link_is_neither_read_nor_written(tmp_path: Path, planted: str, to_what: str) -> None:
    outside, root = tmp_path / "outside.json", tmp_path / "prompts"
    async with await open_store(f"file:{root}") as store:
        await store.seed(template())
        if to_what == "file":
            outside.write_bytes((root / planted).read_bytes())
        (root / planted).unlink()
        (root / planted).symlink_to(outside)
        before = tree(tmp_path)

        with pytest.raises(StoreRefused, match="leads through a symbolic link"):
            await moved(store, "Elsewhere.", 1)
        if planted != ".lock":
            with pytest.raises(StoreRefused, match="leads through a symbolic link"):
                await store.resolve(NAME, tag="stable")
        assert tree(tmp_path) == before


async def test_a_pipe_in_the_place_of_a_document_keeps_nobody_waiting(tmp_path: Path) -> None:
    root = tmp_path / "prompts"
    async with await open_store(f"file:{root}") as store:
        await store.seed(template())
        (root / "support/triage/canary.json").unlink(missing_ok=True)
        os.mkfifo(root / "support/triage/canary.json")
        with pytest.raises(StoreRefused, match="is no file; remove it"):
            await moved(store, "Elsewhere.", None, tag="canary")


async def test_the_store_itself_may_be_behind_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    async with await open_store(f"file:{tmp_path / 'link'}") as store:
        await store.seed(template())
    assert (tmp_path / "real/support/triage/stable.json").is_file()


def tree(folder: Path) -> dict[str, Any]:
    """Every file with its content, every link with where it leads; links are not followed."""
    found = subprocess.run(["find", str(folder), "-printf", "%P %y %l\n"], capture_output=True, text=True, check=True).stdout
    files = {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file() and not file.is_symlink()}
    return {"tree": sorted(found.splitlines()), **files}
