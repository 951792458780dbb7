"""Files that factors name: taken in by content, kept as long as the run, and handed to targets where the factor is."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from activities.datasets import DatasetError
from activities.datasets.file_folders import LocalFolder
from activities.preparing.factor_files import FactorFileMissing, data_folder, keep_factor_files, with_factor_files
from activities.targets.attached_files import attached, with_contents, with_data_urls
from ratchet import Sample
from ratchet._files import File, FileReference, data_url, with_opened_files
from ratchet._text.placeholders import Filling
from store.connection import Database
from store.read.access.teams import TeamReader
from store.read.sample_files import FileReader
from store.write.repositories import Store
from tests.support.pictures import png
from tests.support.store_examples import ExampleRun
from workflows.model.spec.request import OptimizationRequest

A, B = (FileReference(sha256(png(shade)).hexdigest(), "image/png", len(png(shade))) for shade in (21, 22))
CHOICE = {"change": "structured", "type": "choice"}


@pytest.fixture
def spec(example: ExampleRun, tmp_path: Path) -> Callable[..., OptimizationRequest]:
    """A request with these factors beside those of the example; in its folder are two pictures and a text."""
    for shade, name in ((21, "a.png"), (22, "b.png"), (21, "like_a.png")):
        (tmp_path / name).write_bytes(png(shade))
    (tmp_path / "guide.txt").write_text("Never say {{input.ticket}}.")
    before = example.spec().model_dump(mode="json", by_alias=True)

    def given(**factors: Any) -> OptimizationRequest:
        return OptimizationRequest.model_validate({**before, "configuration": {**before["configuration"], **factors}})

    return given


def test_frozen_factors_and_choices_name_files_by_content(spec: Callable[..., OptimizationRequest], tmp_path: Path) -> None:
    files = [{"$file": "a.png"}, {"$file": "b.png"}]
    named = spec(
        bare={"$file": "a.png"},
        style={"value": {"$file": "like_a.png"}},
        pair={"change": "frozen", "value": {"pages": files}},
        chosen={**CHOICE, "value": files[1], "choices": [*files, "none"]},
    )
    taken = with_factor_files(named, LocalFolder(tmp_path))
    values = taken.request.baseline
    assert values["bare"] == values["style"] == A.as_json()
    assert (values["pair"], values["chosen"]) == ({"pages": [A.as_json(), B.as_json()]}, B.as_json())
    assert taken.request.model_dump(mode="json")["configuration"]["chosen"]["choices"] == [A.as_json(), B.as_json(), "none"]
    assert set(taken.files) == {A, B}
    again = with_factor_files(taken.request, data_folder(None))
    assert (again.request, again.files) == (taken.request, {A: None, B: None})
    unnamed = spec(plain="x")
    assert with_factor_files(unnamed, data_folder(None)).request is unnamed


@pytest.mark.parametrize(
    ("factor", "told"),
    [
        ({"$file": "gone.png"}, "configuration.style.value: file 'gone.png' is not in the spec's folder"),
        ({"$file": "../secret"}, "configuration.style.value: file '../secret' leads out of the spec's folder"),
        (
            {**CHOICE, "value": {"$file": "a.png"}, "choices": [{"$file": "a.png"}, {"$file": "like_a.png"}]},
            "configuration.style: with its files by their contents, choices contains the same value twice",
        ),
    ],
)
def test_what_cannot_be_taken_in_names_the_factor(
    spec: Callable[..., OptimizationRequest], tmp_path: Path, factor: dict[str, Any], told: str
) -> None:
    with pytest.raises(DatasetError) as refused:
        with_factor_files(spec(style=factor), LocalFolder(tmp_path, "the spec's folder"))
    assert str(refused.value).startswith(told)
    with pytest.raises(DatasetError, match="without RATCHET_DATA_DIR"):
        with_factor_files(spec(style={"$file": "a.png"}), data_folder(None))


async def test_they_are_kept_as_long_as_a_run_names_them(
    spec: Callable[..., OptimizationRequest], database: Database, store: Store, example: ExampleRun, tmp_path: Path
) -> None:
    taken = with_factor_files(spec(style={"$file": "a.png"}), LocalFolder(tmp_path))
    run_id = (await example.open()).run_id
    teams, files = TeamReader(database), FileReader(database)
    for named in (run_id, run_id, "not-begun"):
        await keep_factor_files(database, named, taken.files)
    assert [await teams.has_file(team, A.digest) for team in ("default", "others")] == [True, False]
    kept = await files.load(A.digest)
    assert kept is not None and kept.content == png(21)
    by_content = with_factor_files(taken.request, data_folder(None))
    async with database.transaction() as connection:
        await connection.execute("UPDATE run_files SET created_at = now() - interval '31 days'")
    assert await store.runs.delete(run_id)
    assert await files.load(A.digest) is None
    with pytest.raises(FactorFileMissing, match=r"no image/png of .* is in the store; give the file's path"):
        await keep_factor_files(database, "later", by_content.files)


async def test_each_kind_of_target_gets_them_where_the_factor_is(
    spec: Callable[..., OptimizationRequest], database: Database, tmp_path: Path
) -> None:
    taken = with_factor_files(spec(style={"$file": "b.png"}, guide={"$file": "guide.txt"}), LocalFolder(tmp_path))
    await keep_factor_files(database, "run-1", taken.files)
    files, configuration = FileReader(database), taken.request.baseline

    chat = await attached(files, {}, configuration)
    text = Filling(chat.marked(configuration), {"ticket": "why"}).text("Look: {{factors.style}} {{factors.guide}}")
    (sent,) = chat.sent([{"role": "user", "content": text}])
    assert sent["content"] == [
        {"type": "text", "text": "Look: "},
        {"type": "image_url", "image_url": {"url": data_url("image/png", png(22))}},
        {"type": "text", "text": " Never say {{input.ticket}}."},
    ]

    (shown,) = await with_data_urls(files, configuration)
    assert shown["style"] == data_url("image/png", png(22))

    sample = await with_contents(files, Sample("s", {}), configuration)
    opened = with_opened_files(configuration, sample.files)
    assert (opened["style"], opened["style"].read()) == (File("image/png", png(22)), png(22))
    assert opened.keys() == configuration.keys()
