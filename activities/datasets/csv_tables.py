"""CSV and TSV: a header, then one row after the other. Every cell is text."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from activities.datasets.dataset_errors import DatasetError, shown
from activities.datasets.items import LONGEST
from activities.datasets.tables import Described, TableReader
from activities.datasets.text_lines import numbered_lines
from workflows.model.spec.dataset import Columns

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
    window = _Window(name, numbered_lines(path, name))
    lines = csv.reader(window, delimiter=delimiter, strict=True)
    while True:
        number = lines.line_num + 1
        window.begin(number)
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


class _Window:
    """The lines of a file, of which one row may have many, but not more than an item may be."""

    def __init__(self, name: str, lines: Iterator[tuple[int, str]]) -> None:
        self._name = name
        self._lines = lines
        self._number, self._taken = 1, 0

    def begin(self, number: int) -> None:
        """The next line begins a row."""
        self._number, self._taken = number, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        _, text = next(self._lines)
        self._taken += len(text)
        if self._taken > LONGEST:
            wrong = f"has more than {LONGEST:,} bytes; keep large content behind a reference, or close a quote"
            raise DatasetError(f"{self._name} line {self._number}: {wrong}")
        return text


def _single(name: str, header: Sequence[str], columns: Columns | None, delimiter: str) -> TableReader:
    """A single column is most often a table with another separator."""
    other = next((separator for separator in SEPARATORS if separator != delimiter and separator in header[0]), None)
    if other is not None:
        wrong = f'is a single column; if {SEPARATORS[other]} separates the columns, say so with dataset.delimiter: "{other}"'
        raise DatasetError(f"{name} line 1: {shown(header[0])!r} {wrong}", unquoted=f"{name} line 1: {wrong}")
    return TableReader(name, header, columns)
