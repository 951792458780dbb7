"""Tables on the terminal: narrow ones lose whole columns, and a program gets all of them."""

from __future__ import annotations

import sys

import pytest

from clients.reports.text.terminal_tables import print_table

HEADS = ("Run", "Status", "Cost", "Why")
ROWS = [("triage-84b7c8fa20", "completed", "0.0613", "it was \x1b[31mred and\nlong " * 4)]


@pytest.mark.parametrize(
    ("columns", "shown"), [(120, "Run Status Cost Why"), (50, "Run Status Why"), (None, "Run Status Cost Why")]
)
def test_columns_to_spare_go_where_the_terminal_is_narrow(
    columns: int | None, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: columns is not None)
    monkeypatch.setenv("COLUMNS", str(columns or 20))
    print_table(HEADS, ROWS, right=("Cost",), folds=("Why",), spare=("Cost",))
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == shown.split()
    assert all(len(row) <= (columns or 10_000) for row in rows)
    assert rows[0].startswith("triage-84b7c8fa20  completed")
    assert "\x1b" not in "".join(rows)
