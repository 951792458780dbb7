"""Foreign texts in messages: cut, without what no wire and no store carries, and without what steers a terminal."""

from __future__ import annotations

import reprlib
from typing import Any, Final

from ratchet._text.visible import visible

LONGEST_MESSAGE: Final = 2_000
"""Characters of an error's text that are kept: histories are small, and targets may raise a novel."""


def shorten(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """A message, cut with a mark when it is longer than the limit, with everything in it shown instead of obeyed.

    Errors repeat what plug-ins, models and files said: a lone surrogate in one must not make it untellable, and an escape
    sequence must not reach the terminal of who reads it. Line ends stay.
    """
    return cut(visible(cut(text, limit)), limit)


def cut(text: str, limit: int) -> str:
    """A text for a model or a store, cut with a mark when it is longer than the limit, and without what neither carries."""
    part = text if len(text) <= limit else text[: limit - 1] + "…"
    return part if part.isascii() and "\x00" not in part else part.replace("\x00", "␀").encode("utf-8", "replace").decode()


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 4, LONGEST_MESSAGE, LONGEST_MESSAGE


def quoted(value: Any, limit: int = LONGEST_MESSAGE) -> str:
    """A foreign value as it would be written, cut. One of many megabytes is not read for that, but to its first elements."""
    return shorten(_SHORT.repr(value), limit)
