"""CSV and TSV: a header, then one row after the other. Every cell is text."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from activities.datasets.items import LONGEST
from activities.datasets.lines import numbered_lines
from activities.datasets.problems import DatasetError, shown
from activities.datasets.tables import Described, TableReader
from workflows.model.dataset import Columns

SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}


def read_csv(path: Path, name: str, columns: Columns | None, delimiter: str) -> Iterator[Described]:
    """The items of a table, with the line on which each begins."""
    csv.field_size_limit(LONGEST)  # the module's own limit is 128 kB, less than one long document
    rows = _rows(path, name, delimiter)
    _, header = next(rows, (0, []))
    if not header:
        return
    reader = TableReader(name, header, columns) if len(header) > 1 else _single(name, header, columns, delimiter)
    for number, cells in rows:
        where = f"{name} line {number}"
        if len(cells) != len(header):
            wrong = (
                f"{where}: has {len(cells)} cells, the header {len(header)}; quote cells that hold {SEPARATORS[delimiter]}"
                " or a line end"
            )
            raise DatasetError(f"{wrong}: {shown(delimiter.join(cells))}", unquoted=wrong)
        yield where, reader.item(dict(zip(header, cells, strict=True))), reader.remark


def _rows(path: Path, name: str, delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The rows that are not empty, with the line on which each begins."""
    lines = csv.reader((text for _, text in numbered_lines(path, name)), delimiter=delimiter, strict=True)
    while True:
        number = lines.line_num + 1
        try:
            cells = next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            raise DatasetError(
                f"{name} line {number}: is not CSV ({error}); put text with quotes in quotes, and double those within"
            ) from None
        if cells:
            yield number, cells


def _single(name: str, header: Sequence[str], columns: Columns | None, delimiter: str) -> TableReader:
    """A single column is most often a table with another separator."""
    other = next((separator for separator in SEPARATORS if separator != delimiter and separator in header[0]), None)
    if other is not None:
        wrong = f'is a single column; if {SEPARATORS[other]} separates the columns, say so with dataset.delimiter: "{other}"'
        raise DatasetError(f"{name} line 1: {shown(header[0])!r} {wrong}", unquoted=f"{name} line 1: {wrong}")
    return TableReader(name, header, columns)
