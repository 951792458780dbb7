"""Large answers, written as JSON where that holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.responses import Response


async def encoded(written: Callable[[], str]) -> Response:
    """An answer whose JSON is built in a thread: thousands of objects take longer than the event loop may stand still."""
    return answer_of(await in_thread(written))


async def in_thread(written: Callable[[], str]) -> bytes:
    """The JSON alone, for whoever gives it to several."""
    return await asyncio.to_thread(lambda: written().encode())


def answer_of(content: bytes) -> Response:
    """An answer of JSON that is written already."""
    return Response(content, media_type="application/json")
