"""Small Markdown tables for the Temporal UI, out of text that people, plug-ins and models wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are on one line each, whatever is in them."""
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(cell(text) for text in row)} |" for row in rows)])


def cell(text: str) -> str:
    """Text that cannot break out of its cell."""
    plain = escape(" ".join(text.split()), quote=False)
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("[", "\\[")
