"""A small dataset file never takes much memory, nor a worker's time: what it unfolds to is bounded in bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.dataset_files import ARROW, PARQUET

MB = 1024 * 1024
ALLOWED = 600 * MB
"""Of address space on top of what Python and the product take before anything is read."""

READING = """
import os, resource, sys
from pathlib import Path
from activities.datasets import DatasetError, FileSource, check_items
from activities.settings import DatasetSettings
from ratchet._environment import settings_from
import activities.datasets.parquet_tables, numpy
def held(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
resource.setrlimit(resource.RLIMIT_AS, (held("VmSize") + {allowed}, resource.RLIM_INFINITY))
before = held("VmRSS")
try:
    largest_mb = settings_from(DatasetSettings, os.environ).largest_dataset_mb
    print("read", check_items(FileSource(Path(sys.argv[1])), largest_mb=largest_mb).count)
except DatasetError as error:
    print("refused", error)
print(max(held("VmHWM") - before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
"""


def read_within(file: Path, addressed: int = ALLOWED, **environment: str) -> str:
    """What reading a file comes to in a process that may take little memory, as may those that it starts."""
    found = subprocess.run(
        [sys.executable, "-c", READING.format(allowed=addressed), str(file)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part), **environment},
    )
    assert found.returncode == 0, found.stderr[-2000:]
    told, taken = found.stdout.strip().rsplit("\n", 1)
    assert int(taken) < ALLOWED
    return told


def repeated(text: str, rows: int) -> Any:
    """A column of one text, which is written once."""
    return ARROW.DictionaryArray.from_arrays(ARROW.array([0] * rows, "int32"), ARROW.array([text]))


def written(file: Path, columns: dict[str, Any], **options: Any) -> Path:
    PARQUET.write_table(ARROW.table(columns), file, compression="zstd", **options)
    return file


@pytest.mark.parametrize("stored", [False, True])
def test_a_kilobyte_that_says_one_text_five_hundred_times(tmp_path: Path, stored: bool) -> None:
    file = written(tmp_path / "bomb.parquet", {"input": repeated("x" * 8 * MB, 500), "n": range(500)}, store_schema=stored)
    assert file.stat().st_size < 8_000
    told = read_within(file, RATCHET_LARGEST_DATASET_MB="30")
    assert told == (
        "refused bomb.parquet: its items and their files have more than 30 MB; "
        "make it smaller, or raise RATCHET_LARGEST_DATASET_MB where it "
        "is read"
    )


def test_the_same_row_again_and_again_is_one_item(tmp_path: Path) -> None:
    file = written(tmp_path / "bomb.parquet", {"input": repeated("x" * MB, 3_000)})
    assert read_within(file, RATCHET_LARGEST_DATASET_MB="10").startswith(
        "refused bomb.parquet: its items and their files have more than 10 MB"
    )


def nested(kind: str) -> Any:
    text, rows = "x" * 4 * MB, 180
    if kind == "list":
        return ARROW.ListArray.from_arrays(ARROW.array(range(rows + 1), "int32"), repeated(text, rows).cast("string"))
    if kind == "struct":
        return ARROW.StructArray.from_arrays([repeated(text, rows).cast("string")], names=["deep"])
    if kind == "string_view":
        return ARROW.array([text] * rows, "string_view")
    return ARROW.array([text * 5], "string")  # larger than an item may be


@pytest.mark.parametrize("kind", ["list", "struct", "string_view", "too_large"])
def test_texts_within_lists_structs_and_views(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"{kind}.parquet"
    making = f"""
from tests.system.hostile.test_datasets_that_take_memory import nested, written
from pathlib import Path
column = nested({kind!r})
written(Path({str(file)!r}), {{"input": column, "n": range(len(column))}})
"""
    subprocess.run([sys.executable, "-c", making], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    told = read_within(file, RATCHET_LARGEST_DATASET_MB="30")
    wanted = (
        "row 1: has more than 16,777,216 bytes" if kind == "too_large" else "its items and their files have more than 30 MB"
    )
    assert wanted in told


def test_a_list_of_a_hundred_million_nothings_in_one_row(tmp_path: Path) -> None:
    file = tmp_path / "nothings.parquet"
    making = f"""
import pyarrow, pyarrow.parquet
column = pyarrow.LargeListArray.from_arrays(pyarrow.array([0, 60_000_000]), pyarrow.nulls(60_000_000, pyarrow.int8()))
pyarrow.parquet.write_table(pyarrow.table({{"input": column}}), {str(file)!r}, compression="zstd")
"""
    subprocess.run([sys.executable, "-c", making], check=True)
    assert file.stat().st_size < MB
    assert read_within(file, 64_000 * MB).startswith("refused nothings.parquet: takes more than 384 MB of memory to read")


def test_a_page_that_decompresses_to_more_than_is_there(tmp_path: Path) -> None:
    file = tmp_path / "page.parquet"
    making = f"""
import pyarrow, pyarrow.parquet
column = pyarrow.array(["x" * (600 << 20)], "large_string")
pyarrow.parquet.write_table(pyarrow.table({{"input": column}}), {str(file)!r}, compression="zstd", use_dictionary=False,
                            write_statistics=False)
"""
    subprocess.run([sys.executable, "-c", making], check=True)
    assert file.stat().st_size < MB
    assert read_within(file, 64_000 * MB).startswith("refused page.parquet: takes more than 384 MB of memory to read")


def test_rows_without_number(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.parquet", {"input": ARROW.nulls(12_000_000, "int8")})
    told = read_within(file)
    assert told == "refused rows.parquet: has 12,000,000 rows, a dataset at most 10,000,000; make it smaller"


def test_an_item_of_a_million_empty_lists(tmp_path: Path) -> None:
    lists = '{"input": [' + "[]," * 5_000_000 + "[]]}"
    for name, text in (("lists.jsonl", lists), ("lists.json", f"[{lists}]")):
        (tmp_path / name).write_text(text)
        told = read_within(tmp_path / name)
        assert "has more than 1,000,000 values; keep large content behind a reference" in told


def test_a_long_text_of_commas_is_one_value(tmp_path: Path) -> None:
    item = json.dumps({"input": "1,2," * 1_000_000})
    (tmp_path / "text.jsonl").write_text(item)
    (tmp_path / "text.json").write_text(f"[{item}]")
    assert [read_within(tmp_path / name) for name in ("text.jsonl", "text.json")] == ["read 1", "read 1"]


@pytest.mark.parametrize("name", ["deep.jsonl", "deep.json"])
def test_an_item_nested_without_end(tmp_path: Path, name: str) -> None:
    deep = '{"input": ' + "[" * 900_000 + "]" * 900_000 + "}"
    (tmp_path / name).write_text(f"[{deep}]" if name.endswith("json") else deep)
    assert "nested too deeply; flatten it" in read_within(tmp_path / name)


def test_a_row_of_csv_that_never_ends(tmp_path: Path) -> None:
    file = tmp_path / "row.csv"
    with file.open("w") as out:
        out.write("a,b\n")
        for _ in range(60):
            out.write('"' + ("x" * 4 * MB + "\n") * 2 + '",')
    told = read_within(file)
    assert told.startswith("refused row.csv line 2: has more than 16,777,216 bytes; keep large content behind a reference")


def test_a_header_of_a_million_columns_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "columns.csv"
    file.write_text(",".join(f"c{n}" for n in range(1_000_000)) + "\n")
    assert read_within(file) == "refused columns.csv: has 1,000,000 columns, at most 10,000 can be read; leave some out"
