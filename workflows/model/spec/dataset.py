"""Datasets: where samples come from, and how they are split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import pydantic
from pydantic import BeforeValidator, Field, field_validator, model_validator

from ratchet._files import names_a_file
from ratchet._frozen import SpecPart
from ratchet._text.explanation import explain
from ratchet._values import CanonicalValue, PathText, ShortText
from workflows.model.run.numbers import Weight
from workflows.model.spec.extensions.named_plugins import PluginReference

LARGEST_INLINE_DATASET = 512 * 1024
"""Bytes. A larger one belongs in a file."""

MOST_INLINE_ITEMS = 50_000

Format = Literal["jsonl", "json", "csv", "tsv", "parquet"]

ItemField = Annotated[str, Field(pattern=r"^(tags|(input|expected)(\.[^.]+)*)$", max_length=200)]
"""A part of an item: `expected`, `input.language`, `expected.label`, or `tags`."""

GroupField = Annotated[str, Field(pattern=r"^(tags(\.[^.]+)?|(input|expected)(\.[^.]+)*)$", max_length=200)]
"""What samples are grouped by: `input.question`, `expected.label`, `tags`, or `tags.customer` for tags as `customer:acme`."""

DatasetName = Annotated[ShortText, Field(min_length=1, max_length=200)]

SplitName = Literal["train", "validation", "test"]
SPLIT_NAMES: Final[tuple[SplitName, ...]] = ("train", "validation", "test")

SPLIT_WORDS: Final[Mapping[str, SplitName]] = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "eval": "validation",
    "test": "test",
}
"""What public datasets call their splits."""

NO_SPLIT = "is no split; write train, validation (or dev, valid, val, eval) or test"


def split_called(word: Any) -> SplitName | None:
    """The split that a word means, whatever its case; None where it is none."""
    return SPLIT_WORDS.get(word.strip().casefold()) if isinstance(word, str) else None


def by_split(given: Mapping[Any, Any]) -> dict[SplitName, Any]:
    """What is given for each split, in the order of the splits; raise ValueError for a word that is none."""
    words: dict[SplitName, Any] = {}
    for word in given:
        split = split_called(word)
        if split is None:
            raise ValueError(f"{str(word)[:40]!r} {NO_SPLIT}")
        if split in words:
            raise ValueError(f"{word!r} and {words[split]!r} are the same split; give one of them")
        words[split] = word
    return {split: given[words[split]] for split in SPLIT_NAMES if split in words}


def _split_of(word: Any) -> SplitName | None:
    found = split_called(word)
    if found is None and word is not None:
        raise ValueError(NO_SPLIT)
    return found


GivenSplit = Annotated[SplitName, BeforeValidator(_split_of)]


class Item(SpecPart):
    """One sample as written in a dataset."""

    id: Annotated[ShortText, Field(min_length=1, max_length=200)] | None = None
    """A stable name. Default: a hash of the content."""
    input: CanonicalValue
    """What the target gets; a mapping when placeholders name its keys."""
    expected: CanonicalValue = None
    """What a good answer is."""
    weight: Weight = 1.0
    """How much this sample counts in a mean."""
    tags: list[ShortText] = Field(default_factory=list)
    """Labels to slice by."""
    split: GivenSplit | None = None
    """The split that it belongs to: train, validation (or dev, valid, val, eval) or test. All items name one, or none does."""

    def given_for(self, split: SplitName) -> Item:
        """The same item in a split; raise ValueError where it names another one itself."""
        if self.split not in (None, split):
            raise ValueError(f"split: is {self.split}, but it is given for {split}; drop one of them")
        return self.model_copy(update={"split": split})


class Splits(SpecPart):
    """Shares of the dataset, drawn by the run's seed. They must not exceed 1 in sum. Without any, the default shares are drawn,
    by what `stratify_by` and `group_by` say."""

    train: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Shown to optimizers as examples."""
    validation: Annotated[float, Field(ge=0, le=1)] = 0.0
    """What candidates are scored on."""
    test: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Untouched until the end: baseline and winner are confirmed on it once."""
    stratify_by: ItemField | None = None
    """Draw by the values of `expected`, of a field such as `input.language`, or of `tags` (each combination is one value):
    every split gets its share of each, and at least one sample of each value that has enough of them."""
    group_by: GroupField | None = None
    """The same as `dataset.group_by`, which needs no splits."""
    nothing_held_back: bool = False
    """What `splits: none` means."""

    @model_validator(mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        return {"nothing_held_back": True} if value == "none" else value

    @model_validator(mode="after")
    def _shares_of_one(self) -> Splits:
        total = self.train + self.validation + self.test
        if total > 1 + 1e-9:
            raise ValueError(f"shares add up to {total:g}; they must not exceed 1")
        by_default = self.test <= 0 and (self.stratify_by or self.group_by or self.nothing_held_back)
        if not self.has_shares and not by_default:
            raise ValueError("train and validation are both 0; candidates need samples to be scored on")
        return self

    @property
    def has_shares(self) -> bool:
        """Whether it says how large the splits are."""
        return self.train + self.validation > 0


def _or_none(schema: dict[str, Any]) -> None:
    schema["anyOf"].append({"const": "none", "description": "Nothing is held back."})


class Columns(SpecPart):
    """Which columns of a table are which part of an item."""

    input: Annotated[list[ShortText], Field(min_length=1)] | None = None
    """The columns that the target gets, as a mapping by their names; one name or a list. Default: every column that is
    nothing else; a single one named `input` is the input itself."""
    expected: ShortText | None = None
    """The column that says what a good answer is. Default: the one named `expected`, `label`, `answer` or `target`."""
    id: ShortText | None = None
    """The column with a stable name. Default: `id`."""
    weight: ShortText | None = None
    """The column with the sample's weight. Default: `weight`."""
    tags: list[ShortText] | None = None
    """Columns with labels; a text is split at `,` and `;`. One name or a list. Default: `tags`."""
    split: ShortText | None = None
    """The column that names each sample's split. Default: `split`, where it is not part of the input."""

    @field_validator("input", "tags", mode="before")
    @classmethod
    def _one_name(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class Dataset(SpecPart):
    """Samples, given in exactly one way: items, path, paths, ref, id, or the name of a stored dataset."""

    items: Annotated[list[Item], Field(max_length=MOST_INLINE_ITEMS)] | None = None
    """The samples themselves, for small sets: a list, or one for each split, such as `{train: [1, 2], test: [3, 4]}`, in which
    a number or a text is the input itself."""
    path: PathText | None = None
    """A file, or an object `s3://bucket/key` (credentials and AWS_ENDPOINT_URL come from the environment). A file is relative
    to the spec for the CLI, and inside RATCHET_DATA_DIR for a worker. A copy is kept: a run never sees its data change."""
    paths: Annotated[dict[SplitName, PathText], Field(min_length=1)] | None = None
    """One file or object for each split, such as `{train: train.csv, validation: dev.csv, test: test.csv}`, as public datasets
    come. No shares are drawn then."""
    ref: PluginReference | None = None
    """`package.module:attribute`: a Python callable without arguments that returns or yields items, as mappings or as
    `ratchet.Sample`, or a mapping with such items for each split; sync or async. The worker calls it when the run begins."""
    version: ShortText | None = None
    """For `ref`: names the code's version. Default: a hash of the source of the module that defines it."""
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """The content hash of a dataset that was ingested before."""
    name: DatasetName | None = None
    """Alone: a stored dataset, by the name it was added under, in its newest version or in the one behind an @ (`tickets@3`).
    With items, path or ref: what to call it; the same name with other content is a new version. Default: the file's name."""
    format: Format | None = None
    """How the file is written. Default: as its ending says (`.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv`, `.parquet`)."""
    columns: Columns | None = None
    """Which columns of CSV, TSV or Parquet are input, expected, id, weight and tags. When given, the keys of JSON objects are
    read as columns too."""
    delimiter: Literal[",", ";", "\t", "|"] | None = None
    """What separates the columns of CSV. Default: a comma; a tab for TSV."""
    splits: Annotated[Splits | None, Field(json_schema_extra=_or_none)] = None
    """Shares for train, validation and test. Default: the split that each sample names; where none does, 0.4 of them are held
    back for the test if that leaves at least 30 to search on and to confirm on (with an optimizer that learns from training
    samples 0.3 to train, 0.3 to validate). Of fewer all are searched on, and where nothing is chosen (`optimizer: none` without
    configurations) all are measured. `none`: nothing is held back, and nothing is confirmed but texts that were made shorter:
    the result is what the search found best."""
    group_by: GroupField | None = None
    """Samples that have the same value of this are one group, as copies of a content are without it: they go to one split, and
    count once in every comparison. `input.question`, `expected.label`, `tags` (each combination is one value), or
    `tags.customer` for tags such as `customer:acme`. What has no value, or an empty one, is in no group."""
    slices: list[ItemField] | None = None
    """The report shows the score of every value of these: `tags`, `expected`, `input.language`. Default: `tags`."""

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, value: Any) -> Any:
        value = {"items": value} if isinstance(value, list) else value
        items = value.get("items") if isinstance(value, dict) else None
        if isinstance(items, dict):
            items = _of_each_split(items)
            value = {**value, "items": items}
        if isinstance(items, list) and len(items) > MOST_INLINE_ITEMS:
            has = f"items has {len(items):,} entries, a spec at most {MOST_INLINE_ITEMS:,}"
            raise ValueError(f"{has}; put samples in a file (path), or add them to the store (name)")
        return value

    @field_validator("paths", mode="before")
    @classmethod
    def _each_split_once(cls, value: Any) -> Any:
        return by_split(value) if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _one_source(self) -> Dataset:
        given = [name for name in ("items", "path", "paths", "ref", "id") if getattr(self, name) is not None]
        if len(given) > 1 or (not given and self.name is None):
            has = ", ".join(given) or "none"
            raise ValueError(f"needs exactly one of items, path, paths, ref, id or the name of a stored dataset (has {has})")
        if self.items is not None and not self.items:
            raise ValueError("items is empty; give at least one sample")
        if self.id is not None and self.name is not None:
            raise ValueError("name and id both say which stored dataset is meant; give one of them")
        if given and self.name is not None and "@" in self.name:
            raise ValueError(f"name {self.name!r} has an @, which stands before a version's number; versions number themselves")
        if self.version is not None and self.ref is None:
            raise ValueError("version names the code behind ref; give ref, or drop version (a stored version is name: NAME@3)")
        return self

    @model_validator(mode="after")
    def _one_way_to_split(self) -> Dataset:
        if self.drawn_splits is not None and self.paths is not None:
            raise ValueError("paths gives each split its own file, and splits shares to draw; give one of them")
        return self

    @model_validator(mode="after")
    def _one_way_to_group(self) -> Dataset:
        also = self.drawn_splits.group_by if self.drawn_splits is not None else None
        if self.group_by is not None and also is not None and self.group_by != also:
            raise ValueError(f"group_by is {self.group_by!r} and splits.group_by {also!r}; give one of them")
        return self

    @model_validator(mode="after")
    def _a_file_that_is_read(self) -> Dataset:
        of_files = [name for name in ("format", "columns", "delimiter") if getattr(self, name) is not None]
        if of_files and not self.files:
            raise ValueError(f"{of_files[0]} says how a file is read; give path, or drop {of_files[0]}")
        for field, path in self.files.items():
            if "://" in path and not is_object(path):
                named = field.removeprefix("dataset.")
                raise ValueError(f"{named} {path!r} cannot be read; give a file, or an object as s3://bucket/key")
        return self

    @property
    def files(self) -> dict[str, str]:
        """The files and objects that it is read from, by the field of a spec that names each."""
        if self.path is not None:
            return {"dataset.path": self.path}
        return {f"dataset.paths.{split}": path for split, path in (self.paths or {}).items()}

    @property
    def is_read_from_files(self) -> bool:
        """Whether it, or what its items name, lies in files."""
        return bool(self.files) or any(names_a_file(item.input) for item in self.items or ())

    @property
    def given_at(self) -> str:
        """The field of a spec that says where the samples are."""
        given = (name for name in ("items", "path", "paths", "ref", "id") if getattr(self, name) is not None)
        return f"dataset.{next(given, 'name')}"

    def lacks(self, *splits: SplitName) -> bool:
        """Whether a run has no samples of one of these, as far as that is certain before the samples are read."""
        if self.drawn_splits is not None and self.drawn_splits.has_shares:
            return not all(getattr(self.drawn_splits, split) for split in splits)
        if self.paths is None and self.items is None:
            return False
        given = {item.split for item in self.items} if self.items is not None else {*(self.paths or ())}
        return (self.holds_nothing_back or given != {None}) and not given.issuperset(splits)

    @property
    def drawn_splits(self) -> Splits | None:
        """What the spec says of splits that are drawn."""
        return None if self.holds_nothing_back else self.splits

    @property
    def holds_nothing_back(self) -> bool:
        """Whether the spec wants no samples held back, and no confirmation by others."""
        return self.splits is not None and self.splits.nothing_held_back

    @property
    def grouped_by(self) -> str | None:
        """The field by which samples are grouped, wherever that is said."""
        return self.group_by or (self.drawn_splits.group_by if self.drawn_splits is not None else None)

    @property
    def grouped_at(self) -> str:
        """The field of a spec that says it."""
        return "dataset.splits.group_by" if self.group_by is None and self.grouped_by is not None else "dataset.group_by"

    def stored_as(self, dataset_id: str) -> Dataset:
        """The same dataset by its content, now that it is in the store."""
        return Dataset(id=dataset_id, splits=self.splits, group_by=self.group_by, slices=self.slices)


def _of_each_split(given: Mapping[Any, Any]) -> list[Item]:
    """The items of each split's list, one after the other."""
    found = []
    for split, values in by_split(given).items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"items.{split}: is no list of items, or an empty one; give the items of the split")
        for index, value in enumerate(values):
            described = {"input": value} if isinstance(value, str | int | float) else value
            try:
                found.append(Item.model_validate(described).given_for(split))
            except pydantic.ValidationError as error:
                raise ValueError(f"items.{split}[{index}]: {'; '.join(explain(error))}") from None
            except ValueError as error:
                raise ValueError(f"items.{split}[{index}]: {error}") from None
    return found


def is_object(path: str) -> bool:
    """Whether a path names an object in S3."""
    bucket, slash, key = path.removeprefix("s3://").partition("/")
    return path.startswith("s3://") and bool(bucket and slash and key) and not key.endswith("/")
