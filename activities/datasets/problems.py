"""What is wrong with a dataset, and how what is there is shown."""

from __future__ import annotations

LONGEST_SHOWN = 80


class DatasetError(ValueError):
    """A dataset that cannot be used. The message names the place, the value and the fix."""


class SourceAway(ConnectionError):
    """Where the dataset is kept does not answer; trying again may help."""


def shown(text: str) -> str:
    """The beginning of a text, as messages show it."""
    text = text.strip()
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
