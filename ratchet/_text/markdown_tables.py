"""Small Markdown tables for the Temporal UI, out of text that people, plug-ins and models wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from ratchet._text.visible import one_line

_OBEYED: Final = re.compile(r"([\\`*_\[\]|~])")
_LINKED: Final = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)|(?<=(?<!&)#)(?=\d)|(?<=GH-)(?=\d)", re.IGNORECASE)
_UNSEEN: Final = "&#8203;"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are on one line each, whatever is in them."""
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(cell(text) for text in row)} |" for row in rows)])


def cell(text: str) -> str:
    """Text that cannot break out of its cell."""
    return inert(one_line(" ".join(text.split())))


def inert(line: str) -> str:
    """One line of text with nothing left that Markdown, HTML or a site that renders them would obey.

    Sites make links of bare addresses, and call people and issues by their names; an unseen character parts these.
    """
    told = escape(_OBEYED.sub(r"\\\1", line), quote=False).replace("$", "&#36;")
    return _LINKED.sub(_UNSEEN, told)
