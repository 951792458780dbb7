"""Tables on the terminal: whole columns are left out where it is narrow, and nothing is where a program reads them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from clients.reports.text.terminal_text import ellipsized, one_line

BETWEEN: Final = 2
"""Columns of the terminal between two of the table."""

UNBOUNDED: Final = 10_000
FOLDED: Final = 16
"""How narrow a column of words may become."""


def print_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
    folds: Collection[str] = (),
    spare: Sequence[str] = (),
    longest: int = UNBOUNDED,
) -> None:
    """Print rows whose cells are data, whatever is in them.

    `folds` are columns of words that may take several lines. Those in `spare` are left out, the first of them first, as long
    as the terminal is too narrow. Cells are cut at `longest`.
    """
    cells = [[ellipsized(one_line(cell), longest) for cell in row] for row in rows]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED
    widths = {head: max([cell_len(head), *(cell_len(row[place]) for row in cells)]) for place, head in enumerate(heads)}
    needed = {head: min(width, FOLDED) if head in folds else width for head, width in widths.items()}
    shown, left = list(heads), list(spare)
    while left and sum(needed[head] + BETWEEN for head in shown) - BETWEEN > room:
        shown.remove(left.pop(0))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in shown:
        table.add_column(head, justify="right" if head in right else "left", no_wrap=head not in folds)
    for row in cells:
        table.add_row(*(Text(cell) for head, cell in zip(heads, row, strict=True) if head in shown))
    Console(width=room, height=len(cells) + 1, highlight=False).print(table)  # both, or a dumb terminal has 80 columns
