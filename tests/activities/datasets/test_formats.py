"""Every format holds the same dataset, columns say what is what, and what is malformed is said with its place and its fix."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.datasets import DatasetError, FileSource, Layout, check_items
from activities.datasets.json_lists import read_json
from tests.support.dataset_files import ARROW, FORMATS, ITEMS, PARQUET, tickets
from workflows.model.spec.dataset import Columns, Item


def items_of(path: Path, **layout: Any) -> list[dict[str, Any]]:
    """What a file holds, its defaults left out."""
    return [item.model_dump(exclude_defaults=True) for _, item in FileSource(path, Layout(**layout)).items()]


def wrong(path: Path, **layout: Any) -> str:
    with pytest.raises(DatasetError) as caught:
        check_items(FileSource(path, Layout(**layout)))
    assert len(str(caught.value)) < 700
    return str(caught.value)


def table(path: Path, **columns: Any) -> Path:
    PARQUET.write_table(ARROW.table(columns), path)
    return path


class TestOneDatasetInEveryFormat:
    """How a dataset is written says nothing about what it is."""

    @pytest.mark.parametrize("form", FORMATS)
    def test_it_is_the_same_dataset(self, tmp_path: Path, form: str) -> None:
        inline = check_items([Item.model_validate(item) for item in ITEMS])
        assert check_items(tickets(tmp_path, form)) == inline
        assert inline.count == 3

    @pytest.mark.parametrize("form", FORMATS)
    def test_a_file_with_another_ending_is_read_as_it_is_said_to_be(self, tmp_path: Path, form: str) -> None:
        file = tickets(tmp_path, form).rename(tmp_path / "tickets.data")
        assert check_items(FileSource(file, Layout(format=form))).count == 3  # type: ignore[arg-type]
        assert "tickets.data: its ending does not say what it is; say so with dataset.format" in wrong(file)

    @pytest.mark.parametrize(("ending", "form"), [("NDJSON", "jsonl"), ("Json", "json"), ("pq", "parquet")])
    def test_endings_in_other_spellings_are_known(self, tmp_path: Path, ending: str, form: str) -> None:
        assert check_items(tickets(tmp_path, form).rename(tmp_path / f"x.{ending}")).count == 3

    @pytest.mark.parametrize("form", [form for form in FORMATS if form != "parquet"])
    def test_a_file_without_items_is_empty(self, tmp_path: Path, form: str) -> None:
        file = tmp_path / f"nothing.{form}"
        for content in ("", "\n", "[]" if form == "json" else "", "a,b\n" if form == "csv" else ""):
            file.write_text(content)
            assert wrong(file) == f"nothing.{form} is empty; give at least one sample"

    def test_a_table_without_rows_is_empty(self, tmp_path: Path) -> None:
        assert (
            wrong(table(tmp_path / "x.parquet", input=ARROW.array([], "string")))
            == "x.parquet is empty; give at least one sample"
        )


class TestColumns:
    """Which column is which part of an item."""

    def test_usual_names_are_known_and_all_others_are_the_input(self, tmp_path: Path) -> None:
        file = tmp_path / "x.csv"
        file.write_text("Question, Context ,Answer\nq,c,a\n")
        assert items_of(file) == [{"input": {"Question": "q", " Context ": "c"}, "expected": "a"}]

    def test_a_lone_column_named_input_is_the_input_itself(self, tmp_path: Path) -> None:
        file = tmp_path / "x.csv"
        file.write_text("input,expected\nhello,world\n")
        assert items_of(file) == [{"input": "hello", "expected": "world"}]
        assert items_of(file, columns=Columns(input=["input"])) == [{"input": {"input": "hello"}, "expected": "world"}]

    def test_columns_are_mapped_as_the_spec_says(self, tmp_path: Path) -> None:
        file = tmp_path / "x.csv"
        file.write_text("no;text;noise;gold;mass;team;topic\n7;hello;?;yes;3;a, b;c\n")
        columns = Columns.model_validate(
            {"input": "text", "expected": "gold", "id": "no", "weight": "mass", "tags": ["team", "topic"]}
        )
        assert items_of(file, columns=columns, delimiter=";") == [
            {"input": {"text": "hello"}, "expected": "yes", "id": "7", "weight": 3.0, "tags": ["a", "b", "c"]}
        ]

    def test_keys_of_json_objects_are_columns_when_the_spec_maps_them(self, tmp_path: Path) -> None:
        columns = Columns.model_validate({"expected": "gold"})
        objects = [{"question": "1+1", "gold": 2}, {"question": "1+2", "gold": 3}, {"question": "?"}]
        (tmp_path / "x.json").write_text(json.dumps(objects))
        (tmp_path / "x.jsonl").write_text("\n".join(json.dumps(row) for row in objects))
        for name in ("x.json", "x.jsonl"):
            assert items_of(tmp_path / name, columns=columns) == [
                {"input": {"question": "1+1"}, "expected": 2},
                {"input": {"question": "1+2"}, "expected": 3},
                {"input": {"question": "?"}},
            ]

    def test_a_key_that_comes_later_is_not_dropped_silently(self, tmp_path: Path) -> None:
        file = tmp_path / "x.jsonl"
        file.write_text('{"question": 1, "gold": 2}\n{"question": 1, "hint": 2}')
        assert wrong(file, columns=Columns(expected="gold")) == (
            "x.jsonl line 2: has 'hint', which the first item lacks; name the keys of the input with dataset.columns.input"
        )

    @pytest.mark.parametrize(
        ("header", "columns", "message"),
        [
            (
                "a,b",
                {"expected": "gold"},
                "x.csv: has no column 'gold', which dataset.columns.expected names; its columns are a, b",
            ),
            ("a,b", {"input": ["a", "c"]}, "x.csv: has no column 'c', which dataset.columns.input names; its columns are a, b"),
            (
                "q,label,answer",
                {},
                "columns 'label' and 'answer' could both be expected; say which with dataset.columns.expected",
            ),
            (
                "expected,id",
                {},
                "no column is left for the input (its columns are expected, id); say which with dataset.columns",
            ),
            ("a,b,a", {}, "x.csv: column 'a' is there twice; rename one"),
            ("a,,b", {}, "x.csv: column 2 has no name; name it in the first line"),
        ],
    )
    def test_a_mapping_that_does_not_fit_is_said(
        self, tmp_path: Path, header: str, columns: dict[str, Any], message: str
    ) -> None:
        (tmp_path / "x.csv").write_text(f"{header}\n{'1,' * header.count(',')}1\n")
        assert message in wrong(tmp_path / "x.csv", columns=Columns.model_validate(columns))


MALFORMED_CSV = [
    ("a cell too many", "a,b\n1,2\n1,2,3\n", "x.csv line 3: has 3 cells, the header 2; quote cells that hold a comma"),
    ("a cell too few", "a,b\n1\n", "x.csv line 2: has 1 cells, the header 2"),
    ("after a cell of several lines", 'a,b\n"1\n1",2\n1\n', "x.csv line 4: has 1 cells"),
    ("an open quote", 'a,b\n1,"2\n1,2\n', "x.csv line 2: is not CSV (unexpected end of data); put text with quotes in quotes"),
    ("text after a quote", 'a,b\n1,"2"2\n', "x.csv line 2: is not CSV (',' expected after '\"')"),
    ("another encoding", "a,b\n1,é\n".encode("latin-1"), "x.csv line 2: byte 3 is not UTF-8; save the file as UTF-8"),
    ("a NUL", "a,b\n1,\x00\n", "x.csv line 2: input: text contains a NUL character; remove it"),
    ("another separator", "a;b\n1;2\n", "x.csv line 1: 'a;b' is a single column; if a semicolon separates the columns, say so"),
    ("tabs", "a\tb\n1\t2\n", "if a tab separates the columns, say so with dataset.delimiter"),
    ("a weight in words", "q,weight\n1,heavy\n", 'x.csv line 2: weight: must be a number (is "heavy")'),
    ("a weight of zero", "q,weight\n1,0\n", 'x.csv line 2: weight: must be more than 0 (is "0")'),
    ("an endless weight", "q,weight\n1,inf\n", "x.csv line 2: weight: must be a finite number"),
    ("a long id", f"q,id\n1,{'x' * 201}\n", "x.csv line 2: id: is too long; at most 200 characters"),
    ("an id twice", "q,id\n1,a\n2,a\n", "x.csv line 3: id 'a' was used before for another content; give each item its own id"),
]

MALFORMED_JSON = [
    ("an object", '{"items": []}', 'x.json line 1: {"items": []} is not a list; write a list of items, [{…}, {…}]; one object'),
    ("JSONL", '{"input": 1}\n{"input": 2}', "one object per line is JSONL (format: jsonl)"),
    ("a text", '"hello"', 'x.json line 1: "hello" is not a list; write a list of items'),
    ("no JSON", "\n\nhello", "x.json line 3: hello is not a list"),
    (
        "cut off in an item",
        '[{"input": 1}, {"input": ',
        "x.json item 2 (line 1): is not JSON (Expecting value at line 1, column 11)",
    ),
    ("cut off between items", '[{"input": 1},\n', "x.json item 2 (line 2): nothing is not an item"),
    ("cut off after an item", '[{"input": 1}', "x.json line 1: a comma or ] is missing after item 1; the file ends there"),
    ("no comma", '[{"input": 1}\n{"input": 2}]', "x.json line 2: a comma or ] is missing after item 1; there is '{'"),
    ("a comma too many", '[{"input": 1},]', "x.json item 2 (line 1): ] is not an item"),
    ("more behind it", '[{"input": 1}]\n[]', "x.json line 2: the list is over, but more follows ('[')"),
    ("a number as item", '[\n{"input": 1}, 7]', "x.json item 2 (line 2): 7] is not an item; write an object such as"),
    ("a key twice", '[{"input": 1, "input": 2}]', "x.json item 1 (line 1): key 'input' is there twice in one object; keep one"),
    ("NaN", '[{"input": NaN}]', "x.json item 1 (line 1): NaN is not a JSON number; write a finite number or null"),
    ("no input", '[\n\n{"expected": 1}]', "x.json item 1 (line 3): input: is missing; add it"),
    ("a wrong line far down", '[{\n"input": 1,\n  "x" 2}]', "(Expecting ':' delimiter at line 3, column 7); correct it there"),
    ("another encoding", '[\n{"input": "é"}]'.encode("latin-1"), "x.json line 2: is not UTF-8; save the file as UTF-8"),
    ("a nest without end", '[{"input": ' + "[" * 100_000, "x.json item 1 (line 1): is nested too deeply; flatten it"),
]


class TestMalformedFiles:
    """Every message names the place, what is there, and what to do."""

    @pytest.mark.parametrize(("content", "message"), [case[1:] for case in MALFORMED_CSV], ids=[c[0] for c in MALFORMED_CSV])
    def test_csv(self, tmp_path: Path, content: str | bytes, message: str) -> None:
        (tmp_path / "x.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        assert message in wrong(tmp_path / "x.csv")

    @pytest.mark.parametrize(("content", "message"), [case[1:] for case in MALFORMED_JSON], ids=[c[0] for c in MALFORMED_JSON])
    def test_json(self, tmp_path: Path, content: str | bytes, message: str) -> None:
        (tmp_path / "x.json").write_bytes(content if isinstance(content, bytes) else content.encode())
        assert message in wrong(tmp_path / "x.json")

    def test_what_is_wrong_with_a_renamed_column_names_the_column(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv").write_text("q,mass\n1,heavy\n")
        assert wrong(tmp_path / "x.csv", columns=Columns(weight="mass")) == (
            "x.csv line 2: weight: must be a number (is \"heavy\") (weight is column 'mass')"
        )

    @pytest.mark.parametrize("content", [b"", b"PAR1 and nothing more", b"{}" * 1000])
    def test_what_is_no_parquet(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "x.parquet").write_bytes(content)
        assert wrong(tmp_path / "x.parquet").startswith("x.parquet: is not Parquet (")

    def test_parquet_that_is_damaged_within(self, tmp_path: Path) -> None:
        file = table(tmp_path / "x.parquet", q=[f"{n} question {n * n}" for n in range(5000)])
        content = bytearray(file.read_bytes())
        content[1000:9000] = b"\xff" * 8000
        file.write_bytes(content)
        assert wrong(file).startswith("x.parquet: is damaged after row 0 (")

    @pytest.mark.parametrize(
        ("cells", "message"),
        [
            (
                ARROW.array(["fine", b"\x00\xff"], "binary"),
                "x.parquet row 1: column 'q' holds bytes, which JSON cannot carry",
            ),
            ([1.0, float("nan")], "x.parquet row 2: input: nan is not a finite number"),
            ([[1.0], [float("inf")]], "x.parquet row 2: input: inf is not a finite number"),
        ],
    )
    def test_parquet_with_cells_that_json_cannot_carry(self, tmp_path: Path, cells: Any, message: str) -> None:
        assert message in wrong(table(tmp_path / "x.parquet", q=cells))


class TestTypedTables:
    """Parquet has types, and keeps what JSON has."""

    def test_every_type_that_json_has_a_form_for_is_kept(self, tmp_path: Path) -> None:
        file = table(
            tmp_path / "x.parquet",
            whole=[7],
            real=[0.5],
            truth=[True],
            none=[None],
            listed=[["a", "b"]],
            nested=[{"deep": [{"er": 1}]}],
            day=[datetime.date(2024, 2, 29)],
            moment=[datetime.datetime(2024, 2, 29, 12, 30)],
            span=[datetime.timedelta(seconds=1.5)],
            price=[decimal.Decimal("9.50")],
            id=[12],
            tags=["x;y"],
        )
        [item] = items_of(file)
        assert item == {
            "id": "12",
            "tags": ["x", "y"],
            "input": {
                "whole": 7,
                "real": 0.5,
                "truth": True,
                "none": None,
                "listed": ["a", "b"],
                "nested": {"deep": [{"er": 1}]},
                "day": "2024-02-29",
                "moment": "2024-02-29T12:30:00",
                "span": 1.5,
                "price": 9.5,
            },
        }

    def test_a_column_of_whole_inputs_is_read_as_jsonl_would_be(self, tmp_path: Path) -> None:
        file = table(tmp_path / "x.parquet", input=[{"q": "a", "n": 1}], expected=["b"])
        assert items_of(file) == [{"input": {"q": "a", "n": 1}, "expected": "b"}]

    def test_rows_are_numbered_across_batches(self, tmp_path: Path) -> None:
        file = table(tmp_path / "x.parquet", q=list(range(2500)), weight=[1.0] * 2400 + [0.0] * 100)
        assert wrong(file).startswith("x.parquet row 2401: weight: must be more than 0")


class TestReadingAsAWhole:
    """Reading in pieces finds what reading at once would."""

    @given(
        st.lists(
            st.dictionaries(st.text(max_size=3), st.text() | st.integers() | st.lists(st.booleans()), max_size=4), max_size=9
        ),
        st.sampled_from([None, 0, 3]),
        st.booleans(),
    )
    def test_a_json_list_in_any_layout(
        self, tmp_path_factory: pytest.TempPathFactory, objects: list[Any], indent: int | None, ascii_only: bool
    ) -> None:
        file = tmp_path_factory.mktemp("json") / "x.json"
        text = json.dumps(objects, indent=indent, ensure_ascii=ascii_only)
        file.write_bytes(text.encode("utf-8", "replace"))
        assert [found for _, found in read_json(file, "x.json")] == json.loads(file.read_bytes())

    def test_objects_larger_than_what_is_read_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("activities.datasets.json_lists.CHUNK", 7)
        objects = [{"input": "é" * size} for size in (0, 1, 50, 5000)]
        (tmp_path / "x.json").write_text(json.dumps(objects, ensure_ascii=False), encoding="utf-8")
        found = list(read_json(tmp_path / "x.json", "x.json"))
        assert [value for _, value in found] == objects

    def test_an_object_without_end_is_given_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("activities.datasets.json_lists.LONGEST", 100_000)
        (tmp_path / "x.json").write_text('[{"input": "' + "x" * 3_000_000)
        assert "x.json item 1 (line 1): is no JSON object of at most 100,000 characters" in wrong(tmp_path / "x.json")
