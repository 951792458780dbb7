"""Replies that hold all results of a batch in one JSON document: taken out one by one while they are read."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from typing import Any, Final

_LIST: Final = re.compile(r'"inlinedResponses"\s*:\s*\[')
_BETWEEN: Final = re.compile(r"[\s,]*")
_LONGEST_BEGINNING: Final = 100
"""Characters of what a list begins with, blanks among them."""


class InlinedResponses:
    """Takes the results out of a reply that comes in pieces. What is left is small, whatever there is of them."""

    def __init__(self, take: Callable[[Any], object]) -> None:
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = ""
        self._is_within = False
        self._tried_at = 0
        self._rest: list[str] = []

    def read(self, piece: bytes) -> None:
        """Go on with the next piece of the reply."""
        self._waiting += self._decoder.decode(piece)
        # What did not end before is not looked at again for every piece.
        if len(self._waiting) >= 2 * self._tried_at:
            self._go_on()

    def rest(self) -> str:
        """The reply without its results, when all of it was read."""
        self._go_on()
        return "".join([*self._rest, self._waiting])

    def _go_on(self) -> None:
        while self._taken() if self._is_within else self._begun():
            self._tried_at = 0
        self._tried_at = len(self._waiting) if self._is_within else 0

    def _begun(self) -> bool:
        """Whether a list of results begins here. Nothing that a text says can look so: its quotes are escaped."""
        found = _LIST.search(self._waiting)
        cut = found.end() if found else max(len(self._waiting) - _LONGEST_BEGINNING, 0)
        self._rest.append(self._waiting[:cut])
        self._waiting = self._waiting[cut:]
        self._is_within = found is not None
        return self._is_within

    def _taken(self) -> bool:
        """Whether there was another result, or the end of the list."""
        begin = _BETWEEN.match(self._waiting)
        self._waiting = self._waiting[begin.end() if begin else 0 :]
        if self._waiting.startswith("]"):
            self._is_within = False
            return True
        try:
            result, end = json.JSONDecoder().raw_decode(self._waiting)
        except (ValueError, RecursionError):
            return False
        self._waiting = self._waiting[end:]
        self._take(result)
        return True
