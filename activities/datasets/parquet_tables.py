"""Parquet: typed columns, read a batch of rows at a time. Needs the extra `parquet`."""

from __future__ import annotations

import datetime
import decimal
import importlib
import itertools
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from activities.datasets.problems import DatasetError
from activities.datasets.tables import Described, TableReader
from workflows.model.dataset import Columns

ROWS_AT_ONCE = 500
BYTES_AT_ONCE = 256 * 1024


def read_parquet(path: Path, name: str, columns: Columns | None) -> Iterator[Described]:
    """The items of a table, with the row of each."""
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise DatasetError(f"{name}: reading Parquet needs pyarrow; install ratchet[parquet]") from None
    try:
        # Row groups may be as large as the file: pages are decoded as they are needed.
        file = parquet.ParquetFile(path, memory_map=False, buffer_size=BYTES_AT_ONCE, pre_buffer=False)
    except (arrow.ArrowException, OSError) as error:
        raise DatasetError(f"{name}: is not Parquet ({_brief(error)}); write it anew") from None
    with file:
        reader = TableReader(name, file.schema_arrow.names, columns)
        wanted = [*reader.input, *reader.tags, *(part for part in (reader.id, reader.weight, reader.expected) if part)]
        numbers = itertools.count(1)
        batches = file.iter_batches(batch_size=ROWS_AT_ONCE, columns=wanted, use_threads=False)
        while True:
            try:
                rows = next(batches).to_pylist()
            except StopIteration:
                return
            except (arrow.ArrowException, OSError, ValueError) as error:
                raise DatasetError(
                    f"{name}: is damaged after row {next(numbers) - 1} ({_brief(error)}); write it anew"
                ) from None
            for row, number in zip(rows, numbers, strict=False):
                where = f"{name} row {number}"
                yield where, reader.item({column: _plain(where, column, cell) for column, cell in row.items()}), reader.remark


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
