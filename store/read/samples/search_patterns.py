"""What a search for a text looks for in SQL: every character stands for itself."""

from __future__ import annotations

import json
from typing import NamedTuple

from store.encoding import storable_text


class Patterns(NamedTuple):
    """For ILIKE."""

    in_text: str
    in_json: str
    """JSON writes some characters otherwise."""


def patterns_of(search: str) -> Patterns:
    """Return what finds a text anywhere in another, and in JSON."""
    text = storable_text(search)
    return Patterns(f"%{_to_the_letter(text)}%", f"%{_to_the_letter(json.dumps(text, ensure_ascii=False)[1:-1])}%")


def _to_the_letter(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
