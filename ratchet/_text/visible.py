"""Foreign text shown instead of obeyed: what steers a terminal, hides text or reorders it becomes visible characters."""

from __future__ import annotations

import re
from typing import Final

TAB: Final = "    "
JOINERS: Final = "\u200c\u200d"
"""Formatting characters that scripts and emoji are written with; every other one can hide or reorder text."""

STEERING: Final = re.compile(
    "[\x00-\x08\x09\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """The text with control, formatting and escape characters shown instead of obeyed. Line ends stay."""
    return STEERING.sub(_shown, text)


def one_line(text: str) -> str:
    """The visible text on one line; its line ends are shown as well."""
    return visible(text).replace("\n", "↵")


def _shown(found: re.Match[str]) -> str:
    character = found.group()
    if character == "\t":
        return TAB
    if character in JOINERS:
        return character
    if character < " ":
        return chr(0x2400 + ord(character))
    return "\u2421" if character == "\x7f" else f"<U+{ord(character):04X}>"
