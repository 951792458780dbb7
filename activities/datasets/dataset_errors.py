"""What is wrong with a dataset, and how what is there is shown."""

from __future__ import annotations

LONGEST_SHOWN = 80


class DatasetError(ValueError):
    """A dataset that cannot be used. The message names the place, the value and the fix.

    A worker reads files and objects for people who may not read them themselves, so what it tells them names the place and
    never the value: `unquoted` is that message, where it differs.
    """

    def __init__(self, message: str, *, unquoted: str | None = None) -> None:
        super().__init__(message)
        self.unquoted = unquoted or message


class SourceAway(ConnectionError):
    """Where the dataset is kept does not answer; trying again may help."""


def shown(text: str) -> str:
    """The beginning of a text, as messages show it."""
    text = text.strip()
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
