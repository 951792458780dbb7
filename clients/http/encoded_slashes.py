"""Ids with a slash in them, which Temporal allows: an encoded slash (`%2F`) is part of a segment, and separates nothing."""

from __future__ import annotations

from urllib.parse import unquote

from pydantic import BeforeValidator
from starlette.types import ASGIApp, Receive, Scope, Send

_SLASH = "\ufdd0"
"""Stands for a slash while paths are told apart; Unicode keeps it free for such uses inside of a program."""


class WholeSegments:
    """Servers decode a path before it is told apart; below `prefix` it is told apart first."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or b""
        if scope["type"] == "http" and raw.startswith(self._prefix) and b"%2f" in raw.lower():
            segments = raw.decode("ascii", "replace").split("/")
            scope = {**scope, "path": "/".join(unquote(segment).replace("/", _SLASH) for segment in segments)}
        await self._app(scope, receive, send)


def decoded_segment(text: str) -> str:
    """An id as it is, with the slashes that it had."""
    return text.replace(_SLASH, "/")


SEGMENT = BeforeValidator(lambda text: decoded_segment(text) if isinstance(text, str) else text)
"""What an id in a path is read with."""


def as_sent(path: str) -> str:
    """The path of a request as whoever sent it knows it."""
    return path.replace(_SLASH, "%2F")
