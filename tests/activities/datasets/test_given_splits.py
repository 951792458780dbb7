"""Given splits: the samples of any source name them, nothing is drawn, and no content is in two of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic
import pytest

from activities.datasets import DatasetError, Ingested, check_items, ingest, source_of
from activities.datasets.given_splits import GivenSplits
from activities.datasets.run_dataset import clusters_in, dataset_of, given_splits_in
from activities.preparing.evaluation_plan import EvaluationPlan, plan_evaluation
from activities.settings import DatasetSettings
from ratchet._text.explanation import explain
from store.connection import Database
from store.read.reader import StoreReader
from store.write.datasets import Datasets
from tests.support.dataset_files import ARROW, PARQUET
from tests.support.store_examples import ExampleRun
from workflows.model.run.contract import PrepareInput
from workflows.model.spec.dataset import Dataset
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import LeftOut
from workflows.model.trial import Split

ROWS = [{"q": f"q{n}", "label": f"a{n}", "split": split} for n, split in enumerate(["train"] * 3 + ["dev"] * 2 + ["test"] * 4)]
WORDS = {"train": "train", "dev": "validation", "test": "test"}
SIZES = {Split.TRAIN: 3, Split.VALIDATION: 2, Split.TEST: 4}


def item(row: dict[str, Any]) -> dict[str, Any]:
    return {"input": {"q": row["q"]}, "expected": row["label"], "split": row["split"]}


ITEMS = [item(row) for row in ROWS]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Rows as a file of the format that its ending says."""
    match path.suffix:
        case ".parquet":
            PARQUET.write_table(ARROW.table({name: [row[name] for row in rows] for name in rows[0]}), path)
        case ".csv" | ".tsv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, rows[0], delimiter="," if path.suffix == ".csv" else "\t")
                writer.writeheader()
                writer.writerows(rows)
        case ".json":
            path.write_text(json.dumps(rows))
        case _:
            path.write_text("\n".join(map(json.dumps, rows)))
    return path


def source(folder: Path, **dataset: Any) -> Any:
    return source_of(Dataset.model_validate(dataset), lambda path: folder / path, DatasetSettings())


def columns(form: str) -> dict[str, Any]:
    return {"columns": {"input": "q", "expected": "label"}} if form in ("json", "jsonl") else {}


def sizes(found: Ingested) -> dict[Split, int]:
    return {split: sum(split.value in given for given in found.given) for split in SIZES}


FORMS = ["jsonl", "json", "csv", "tsv", "parquet"]


class TestSources:
    """However the samples name their splits, it is the same dataset."""

    def test_a_list_and_a_list_for_each_split(self, tmp_path: Path) -> None:
        listed = check_items(source(tmp_path, items=ITEMS))
        by_word = {word: [{**row, "split": None} for row in ITEMS if row["split"] == word] for word in WORDS}
        assert check_items(source(tmp_path, items=dict(reversed(by_word.items())))) == listed
        assert sizes(listed) == SIZES

    @pytest.mark.parametrize("form", FORMS)
    def test_a_column_of_a_file(self, tmp_path: Path, form: str) -> None:
        write(tmp_path / f"all.{form}", ROWS)
        assert check_items(source(tmp_path, path=f"all.{form}", **columns(form))) == check_items(source(tmp_path, items=ITEMS))

    @pytest.mark.parametrize("form", FORMS)
    def test_a_file_for_each_split(self, tmp_path: Path, form: str) -> None:
        plain = [{name: row[name] for name in ("q", "label")} for row in ROWS]
        for word in WORDS:
            rows = [bare for row, bare in zip(ROWS, plain, strict=True) if row["split"] == word]
            write(tmp_path / f"{word}.{form}", rows)
        paths = {word: f"{word}.{form}" for word in reversed(WORDS)}
        found = source(tmp_path, paths=paths, **columns(form))
        assert check_items(found) == check_items(source(tmp_path, items=ITEMS))
        assert found.name == f"train.{form} + dev.{form} + test.{form}"

    @pytest.mark.parametrize("form", ["jsonl", "json"])
    def test_items_of_a_file(self, tmp_path: Path, form: str) -> None:
        write(tmp_path / f"all.{form}", ITEMS)
        assert check_items(source(tmp_path, path=f"all.{form}")) == check_items(source(tmp_path, items=ITEMS))

    @pytest.mark.parametrize("form", ["csv", "parquet"])
    def test_a_column_by_another_name_and_one_that_is_input(self, tmp_path: Path, form: str) -> None:
        write(tmp_path / f"named.{form}", [{"q": row["q"], "label": row["label"], "part": row["split"]} for row in ROWS])
        named = source(tmp_path, path=f"named.{form}", columns={"split": "part"})
        assert check_items(named) == check_items(source(tmp_path, items=ITEMS))
        write(tmp_path / f"input.{form}", [{"q": "q", "split": "banana"}, {"q": "q", "split": "spare"}])
        [first, _] = source(tmp_path, path=f"input.{form}", columns={"input": ["q", "split"]}).items()
        assert (first[1].input, first[1].split) == ({"q": "q", "split": "banana"}, None)

    def test_seed_lists(self) -> None:
        """As document 004's evaluator takes them: (train_seeds, val_seeds, test_seeds)."""
        given = Dataset.model_validate({"items": {"train": [1, 2], "val": [3], "test": [4, 5]}})
        assert [(item.input, item.split) for item in given.items or []] == [
            (1, "train"),
            (2, "train"),
            (3, "validation"),
            (4, "test"),
            (5, "test"),
        ]
        assert Dataset.model_validate(given.model_dump(mode="json")) == given

    @pytest.mark.parametrize("word", ["train", "Train ", "validation", "valid", "val", "DEV", "eval", "test"])
    def test_the_words_of_public_datasets(self, tmp_path: Path, word: str) -> None:
        write(tmp_path / "one.csv", [{"q": "q", "split": word}])
        [(_, found)] = source(tmp_path, path="one.csv").items()
        assert found.split == {"train": "train", "test": "test"}.get(word.strip().lower(), "validation")


class TestRefused:
    """What is wrong is told with its place."""

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("x.jsonl", "x.jsonl line 2: split: is no split; write train, validation"),
            ("x.csv", "x.csv line 3: split: is no split; write train, validation"),
            ("x.parquet", "x.parquet row 2: split: is no split; write train, validation"),
        ],
    )
    def test_a_word_that_is_none(self, tmp_path: Path, name: str, told: str) -> None:
        wrong = [{"input": "a", "split": "train"}, {"input": "b", "split": "holdout"}]
        write(tmp_path / name, wrong)
        with pytest.raises(DatasetError, match='is "holdout"') as refused:
            check_items(source(tmp_path, path=name))
        assert str(refused.value).startswith(told)
        assert "holdout" not in refused.value.unquoted

    @pytest.mark.parametrize(
        ("dataset", "told"),
        [
            ({"items": {"holdout": [1]}}, "'holdout' is no split; write train, validation (or dev, valid, val, eval) or test"),
            ({"paths": {"holdout": "a.csv"}}, "paths: 'holdout' is no split; write train"),
            ({"paths": {"dev": "a.csv", "valid": "b.csv"}}, "paths: 'valid' and 'dev' are the same split; give one of them"),
            ({"paths": {}}, "paths: is empty; add at least one entry"),
            ({"paths": {"train": "a.csv"}, "path": "b.csv"}, "needs exactly one of items, path, paths"),
            ({"paths": {"train": "a.csv"}, "splits": {"train": 1}}, "paths gives each split its own file, and splits shares"),
            ({"paths": {"train": "http://a/b"}}, "paths.train 'http://a/b' cannot be read; give a file"),
            ({"items": {"train": [1], "test": [{"inptu": 2}]}}, "items.test[0]: input: is missing; add it"),
            (
                {"items": {"train": [{"input": 1, "split": "test"}]}},
                "items.train[0]: split: is test, but it is given for train",
            ),
            ({"items": {"train": [1], "test": []}}, "items.test: is no list of items, or an empty one"),
        ],
    )
    def test_a_spec(self, dataset: dict[str, Any], told: str) -> None:
        with pytest.raises(pydantic.ValidationError) as refused:
            Dataset.model_validate(dataset)
        assert told in "; ".join(explain(refused.value))

    def test_some_without_a_split(self, tmp_path: Path) -> None:
        for splits, told in (
            (["train", None], "x.jsonl line 2: names no split, and those before it do"),
            ([None, "train"], "x.jsonl line 2: names a split, and those before it do not"),
        ):
            write(tmp_path / "x.jsonl", [{"input": n, "split": split} for n, split in enumerate(splits)])
            with pytest.raises(DatasetError, match=told):
                check_items(source(tmp_path, path="x.jsonl"))

    def test_a_file_of_a_split_that_is_empty_broken_or_for_another_split(self, tmp_path: Path) -> None:
        write(tmp_path / "train.jsonl", [{"input": 1}])
        for lines, told in (
            ("", "dataset.paths.test: test.jsonl is empty; give at least one sample"),
            ("{", "dataset.paths.test: test.jsonl line 1: is not JSON"),
            (
                '{"input": 2, "split": "dev"}',
                "dataset.paths.test: test.jsonl line 1: split: is validation, but it is given for",
            ),
        ):
            (tmp_path / "test.jsonl").write_text(lines)
            with pytest.raises(DatasetError) as refused:
                check_items(source(tmp_path, paths={"train": "train.jsonl", "test": "test.jsonl"}))
            assert str(refused.value).startswith(told)


async def divided(database: Database, example: ExampleRun, items: Any, **more: Any) -> tuple[EvaluationPlan, GivenSplits]:
    """What a run over these items measures with, by way of the store."""
    spec: OptimizationRequest = example.spec(dataset={"items": items, **more})
    stored = await dataset_of(database, spec, DatasetSettings())
    datasets = Datasets(database)
    hashes = await datasets.item_hashes(stored.dataset_id)
    clusters = await clusters_in(datasets, stored.dataset_id, spec.dataset)
    given = await given_splits_in(datasets, stored.dataset_id, spec, hashes, clusters)
    assert given is not None
    prepare = PrepareInput(run_id="given", request=spec)
    return plan_evaluation(prepare, stored.dataset_id, hashes, None, clusters, given), given


def numbered(**splits: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """For each split items that say these numbers, under ids of their own."""
    return {split: [{"id": f"{split}{n}", "input": n} for n in numbers] for split, numbers in splits.items()}


class TestDividing:
    """Every sample is in the split it names, unless an earlier one says the same."""

    async def test_each_split_has_its_samples(self, database: Database, example: ExampleRun) -> None:
        plan, given = await divided(database, example, ITEMS)
        assert plan.sizes == SIZES and plan.search.suite.split is Split.VALIDATION
        assert given.left_out == {}
        again, _ = await divided(database, example, list(reversed(ITEMS)))
        assert again.search.item_hashes == plan.search.item_hashes  # drawn by content, not by place

    async def test_without_validation_candidates_are_scored_on_train(self, database: Database, example: ExampleRun) -> None:
        plan, _ = await divided(database, example, numbered(train=range(5), test=range(5, 8)))
        assert (plan.search.suite.split, plan.sizes) == (Split.TRAIN, {Split.TRAIN: 5, Split.TEST: 3})
        with pytest.raises(DatasetError, match="no sample is left to score candidates on; give train or validation samples"):
            await divided(database, example, numbered(test=range(5)))

    async def test_a_split_is_part_of_the_suite_and_the_dataset_but_not_of_a_sample(
        self, database: Database, reader: StoreReader, example: ExampleRun
    ) -> None:
        one, _ = await divided(database, example, [{"input": n, "split": "train" if n else "test"} for n in range(5)])
        other, _ = await divided(database, example, [{"input": n, "split": "test" if n else "train"} for n in range(5)])
        suites = [one.search.suite, other.search.suite]
        assert suites[0].suite_id != suites[1].suite_id and suites[0].dataset_id != suites[1].dataset_id
        without = await ingest(database, Dataset.model_validate([{"input": n} for n in range(5)]).items or [])
        ids = [*(suite.dataset_id for suite in suites), without.dataset_id]
        hashes = [[sample.item_hash for sample in await reader.datasets.samples(dataset_id)] for dataset_id in ids]
        assert hashes[0] == hashes[1] == hashes[2]

    async def test_a_content_stays_in_its_first_split_and_the_others_are_told(
        self, database: Database, example: ExampleRun
    ) -> None:
        leaking = numbered(test=[3, 4, 20, 21, 30], validation=[2, 20, 22, 23], train=[1, 2, 3])
        plan, given = await divided(database, example, leaking)
        assert plan.sizes == {Split.TRAIN: 3, Split.VALIDATION: 3, Split.TEST: 3}
        assert given.left_out == {
            Split.VALIDATION: LeftOut(count=1, ids=("validation2",)),
            Split.TEST: LeftOut(count=2, ids=("test3", "test20")),
        }
        assert plan.test is not None
        assert plan.test.suite.left_out == given.left_out[Split.TEST]

    async def test_so_does_the_very_same_sample_in_whatever_order_it_comes(
        self, database: Database, example: ExampleRun
    ) -> None:
        for order in (1, -1):
            items = [{"input": n, "split": split} for n, split in ((1, "test"), (2, "test"), (1, "train"), (1, "test"))][
                ::order
            ]
            plan, given = await divided(database, example, items)
            assert plan.sizes == {Split.TRAIN: 1, Split.TEST: 1}
            assert given.left_out[Split.TEST].count == 1
        assert check_items(Dataset.model_validate(items).items or []).duplicates_dropped == 1

    async def test_a_group_stays_in_its_first_split(self, database: Database, example: ExampleRun) -> None:
        items = [
            {"input": n, "tags": [f"customer:{n % 3}"], "split": "train" if n % 3 == 0 and n < 9 else "test"} for n in range(12)
        ]
        plan, given = await divided(database, example, items, group_by="tags.customer")
        assert plan.sizes == {Split.TRAIN: 3, Split.TEST: 8}
        assert given.left_out[Split.TEST].grouped and given.left_out[Split.TEST].count == 1

    async def test_copies_within_a_split_count_once(self, database: Database, example: ExampleRun) -> None:
        copied = {split: [{"id": f"{split}{n}", "input": [split, n % 3]} for n in range(6)] for split in ("train", "test")}
        plan, given = await divided(database, example, copied)
        assert (plan.counting, given.left_out) == ({Split.TRAIN: 3, Split.TEST: 3}, {})

    async def test_a_split_of_which_nothing_is_left_is_refused(self, database: Database, example: ExampleRun) -> None:
        with pytest.raises(DatasetError) as refused:
            await divided(database, example, numbered(train=range(9), test=range(2)))
        assert str(refused.value) == (
            "dataset.items: test has no sample of its own: what its 2 samples say is in train, too; "
            "give test other samples, or leave it out"
        )

    async def test_shares_are_refused(self, database: Database, example: ExampleRun) -> None:
        with pytest.raises(DatasetError, match=r"dataset\.splits: the samples name their splits themselves"):
            await divided(database, example, ITEMS, splits={"validation": 1})
