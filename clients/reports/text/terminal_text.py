"""Text from users and models on a terminal: what would steer the terminal is shown instead, and nothing breaks the layout."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from rich.cells import cell_len, chop_cells

from ratchet._text.visible import one_line as one_line
from ratchet._text.visible import visible as visible

_WORDS: Final = re.compile(r"\s*\S+|\s+")


def ellipsized(text: str, width: int) -> str:
    """The text cut to a width on the terminal, with a mark where it was cut."""
    if cell_len(text) <= width:
        return text
    return f"{chop_cells(text, width - 1)[0].rstrip()}…"


def wrapped(line: str, width: int) -> list[str]:
    """One visible line as rows no wider than the width; broken between words where there are any."""
    rows: list[str] = []
    row = ""
    for word in _WORDS.findall(line):
        if cell_len(row + word) <= width:
            row += word
            continue
        if row.strip():
            rows.append(row.rstrip())
            row, word = "", word.lstrip()
        *full, row = chop_cells(row + word, width) or [""]
        rows.extend(full)
    return [*rows, row.rstrip()]


def padded(text: str, width: int) -> str:
    """The text filled with blanks to a width on the terminal."""
    return text + " " * max(width - cell_len(text), 0)


def without_zero_width(text: str) -> str:
    """The text with a mark for every character that takes no room of its own."""
    return "".join("\ufffd" if unicodedata.category(character) in {"Mn", "Me", "Cf"} else character for character in text)
