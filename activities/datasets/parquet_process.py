"""The items of a Parquet file, read in a process of its own that may take little memory (run as a module).

A kilobyte of Parquet can stand for gigabytes: a text that many rows refer to, pages that unfold, lists of nothing. Rows that do
not fit into the process's memory are read again, fewer at once, until one alone is too much; and what is read is written out no
more at once than is known to fit. Writes one line of JSON for each item, and one that says how it ended.
"""

from __future__ import annotations

import datetime
import decimal
import json
import resource
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow  # type: ignore[import-untyped]
import pyarrow.compute as compute  # type: ignore[import-untyped]
import pyarrow.parquet as parquet  # type: ignore[import-untyped]

from activities.datasets.dataset_errors import DatasetError
from activities.datasets.items import LONGEST
from activities.datasets.tables import Described, TableReader
from workflows.model.spec.dataset import Columns

MOST_MEMORY = 384 * 1024 * 1024
"""Bytes on top of what the libraries take."""

MOST_CPU_SECONDS = 1200
"""The libraries decode some damaged files for ever."""

MOST_ROWS = 10_000_000
ROWS_AT_ONCE = 500
BYTES_AT_ONCE = 256 * 1024
BYTES_WRITTEN_OUT = 4 * 1024 * 1024
"""Of rows that are made Python values together."""


def main() -> None:
    """Write the items of the file that the first argument names."""
    path, name, columns = json.loads(sys.argv[1])
    _limit_memory()
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
    try:
        for item in items(Path(path), name, None if columns is None else Columns.model_validate(columns)):
            _write({"item": item})
        _write({"ended": True})
    except DatasetError as error:
        _write({"wrong": [str(error), error.unquoted]})
    except MemoryError:
        _write({"wrong": [too_large(name), too_large(name)]})


def too_large(name: str) -> str:
    """What is said of a file that takes too much memory to read."""
    return f"{name}: takes more than {MOST_MEMORY // 2**20} MB of memory to read; write it anew with smaller rows and pages"


def _write(told: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")


def _limit_memory() -> None:
    """What a process may address; where the system does not tell how much it does, nothing is limited."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return
    addressed = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (addressed + MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def items(path: Path, name: str, columns: Columns | None) -> Iterator[Described]:
    """The items of a table, with the row of each."""
    try:
        # Row groups may be as large as the file: pages are decoded as they are needed.
        file = parquet.ParquetFile(path, memory_map=False, buffer_size=BYTES_AT_ONCE, pre_buffer=False)
    except MemoryError:
        raise
    except (arrow.ArrowException, OSError) as error:
        raise DatasetError(f"{name}: is not Parquet ({_brief(error)}); write it anew") from None
    with file:
        if file.metadata.num_rows > MOST_ROWS:
            rows = f"{file.metadata.num_rows:,} rows, a dataset at most {MOST_ROWS:,}"
            raise DatasetError(f"{name}: has {rows}; make it smaller")
        reader = TableReader(name, file.schema_arrow.names, columns)
        single = (reader.id, reader.weight, reader.expected, reader.split)
        wanted = [*reader.input, *reader.tags, *(part for part in single if part)]
        for number, row in enumerate(_rows(file, name, wanted), start=1):
            where = f"{name} row {number}"
            yield where, reader.item({column: _plain(where, column, cell) for column, cell in row.items()}), reader.remark


def _rows(file: Any, name: str, wanted: list[str]) -> Iterator[Mapping[str, Any]]:
    """Row after row. What does not fit is read again, fewer rows at once, from where it was."""
    number, at_once = 0, ROWS_AT_ONCE
    for group in range(file.num_row_groups):
        done = 0
        while True:
            reading = file.iter_batches(batch_size=at_once, row_groups=[group], columns=wanted, use_threads=False)
            to_skip = done
            try:
                while (batch := _next(reading, name, number)) is not None:
                    skipped = min(to_skip, batch.num_rows)
                    to_skip -= skipped
                    for row in _written_out(batch.slice(skipped), f"{name} row", number):
                        done, number = done + 1, number + 1
                        yield row
                break
            except MemoryError:
                if at_once == 1:
                    raise
                at_once = max(1, at_once // 8)


def _next(reading: Any, name: str, number: int) -> Any:
    """The next batch of rows; None when there is no more."""
    try:
        return next(reading, None)
    except MemoryError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise DatasetError(f"{name}: is damaged after row {number} ({_brief(error)}); write it anew") from None


def _written_out(batch: Any, where: str, before: int) -> Iterator[Mapping[str, Any]]:
    """The rows of a batch as Python values, not more of them at once than fit."""
    waiting = [(0, batch.num_rows)]
    while waiting:
        first, count = waiting.pop()
        part = batch.slice(first, count)
        size = sum(bytes_in(column) for column in part.columns)
        if count > 1 and size > BYTES_WRITTEN_OUT:
            waiting += [(first + count // 2, count - count // 2), (first, count // 2)]
            continue
        if count == 1 and size > LONGEST:
            wrong = f"has more than {LONGEST:,} bytes; keep large content behind a reference"
            raise DatasetError(f"{where} {before + first + 1}: {wrong}")
        yield from part.to_pylist()


def bytes_in(array: Any) -> int:
    """How much the values are when each is written out, of an array whose values may refer to one another's text."""
    kind = array.type
    if arrow.types.is_dictionary(kind):
        sizes = _sizes(array.dictionary)
        if sizes is None:
            return int(array.nbytes + len(array) * bytes_in(array.dictionary))
        return int(compute.sum(compute.take(sizes, array.indices), min_count=0).as_py()) + len(array)
    if arrow.types.is_struct(kind):
        return sum(bytes_in(field) for field in array.flatten()) + len(array)
    if arrow.types.is_map(kind):
        entries = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = (array.keys, array.items)
        return sum(bytes_in(part.slice(entries[0], entries[1] - entries[0])) for part in parts) + len(array)
    if hasattr(array, "flatten") and arrow.types.is_nested(kind):
        return bytes_in(array.flatten()) + len(array)
    sizes = _sizes(array)
    return int(array.nbytes) if sizes is None else int(compute.sum(sizes, min_count=0).as_py()) + len(array)


def _sizes(texts: Any) -> Any:
    """How many bytes each text has; None where they are no texts."""
    kind = texts.type
    if kind in (arrow.string_view(), arrow.binary_view()):
        views = np.frombuffer(texts.buffers()[1], dtype=np.int32)[::4]
        return arrow.array(views[texts.offset : texts.offset + len(texts)])
    one_of = (arrow.types.is_string, arrow.types.is_large_string, arrow.types.is_binary, arrow.types.is_large_binary)
    return compute.binary_length(texts) if any(check(kind) for check in one_of) else None


def _plain(where: str, column: str, cell: Any) -> Any:
    """The cell as JSON knows it."""
    match cell:
        case None | str() | bool() | int() | float():
            return cell
        case list() | tuple():
            return [_plain(where, column, part) for part in cell]
        case Mapping():
            return {key: _plain(where, column, part) for key, part in cell.items()}
        case datetime.datetime() | datetime.date() | datetime.time():
            return cell.isoformat()
        case datetime.timedelta():
            return cell.total_seconds()
        case decimal.Decimal():
            return int(cell) if cell.is_finite() and cell == cell.to_integral_value() else float(cell)
        case uuid.UUID():
            return str(cell)
    wrong = (
        f"holds {type(cell).__name__}, which JSON cannot carry; leave it out with dataset.columns.input, "
        "or keep a reference to it"
    )
    raise DatasetError(f"{where}: column {column!r} {wrong}", unquoted=f"{where}: a column {wrong}")


def _brief(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]


if __name__ == "__main__":
    main()
