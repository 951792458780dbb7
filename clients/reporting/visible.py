"""Text from users and models on a terminal: what would steer the terminal is shown instead, and nothing breaks the layout."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from rich.cells import cell_len, chop_cells

TAB: Final = "    "
JOINERS: Final = "\u200c\u200d"
"""Formatting characters that scripts and emoji are written with; every other one can hide or reorder text."""

_STEERING: Final = re.compile(
    "[\x00-\x08\x09\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_WORDS: Final = re.compile(r"\s*\S+|\s+")


def visible(text: str) -> str:
    """The text with control, formatting and escape characters shown instead of obeyed. Line ends stay."""
    return _STEERING.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    character = found.group()
    if character == "\t":
        return TAB
    if character in JOINERS:
        return character
    if character < " ":
        return chr(0x2400 + ord(character))
    return "\u2421" if character == "\x7f" else f"<U+{ord(character):04X}>"


def one_line(text: str) -> str:
    """The visible text on one line; its line ends are shown as well."""
    return visible(text).replace("\n", "↵")


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
