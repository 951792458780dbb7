"""What a plug-in prints while it is called, told apart from what others print in the same process at the same time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TextIO

from activities.secret_texts import without_secrets

LONGEST_PRINTED: Final = 2_000
"""Characters that are kept, the last ones."""

SPARE: Final = 200
"""Kept beside them, so that a secret which begins before them is still known as one."""


class PrintedText:
    """The end of what was printed on behalf of one call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._end = ""
        self._left_out = False

    def add(self, text: str) -> None:
        """Take more, from whichever thread."""
        with self._lock:
            said = self._end + text
            self._end = said[-LONGEST_PRINTED - SPARE :]
            self._left_out |= len(said) > LONGEST_PRINTED

    @property
    def text(self) -> str | None:
        """What is kept of it, without secrets; None where nothing was printed."""
        if not self._end.strip():
            return None
        told = without_secrets(self._end)[-LONGEST_PRINTED:].rstrip()
        return f"…{told}" if self._left_out else told

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Listen to what is printed in this context, and in the threads and tasks that take it over."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None and not isinstance(stream, _Overheard):
                setattr(sys, name, _Overheard(stream))
        token = _listener.set(self)
        try:
            yield
        finally:
            _listener.reset(token)


_listener: ContextVar[PrintedText | None] = ContextVar("printed", default=None)
"""Only the user's own code prints: it cannot be handed a place to print to."""


class _Overheard:
    """A stream that is written to as before, while whoever listens is told."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        listener = _listener.get()
        if listener is not None:
            listener.add(text)
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
