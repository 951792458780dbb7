"""Foreign texts in messages: cut, and without what no wire and no store carries."""

from __future__ import annotations

from typing import Final

LONGEST_MESSAGE: Final = 2_000
"""Characters of an error's text that are kept: histories are small, and targets may raise a novel."""


def shorten(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """The text, cut with a mark when it is longer than the limit, and without what no wire and no store carries.

    Errors repeat what plug-ins, models and files said; a lone surrogate in one must not make it untellable.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut if cut.isascii() and "\x00" not in cut else cut.replace("\x00", "␀").encode("utf-8", "replace").decode("utf-8")
