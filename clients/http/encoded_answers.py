"""Large answers, written as JSON where that holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.responses import Response


async def encoded(written: Callable[[], str]) -> Response:
    """An answer whose JSON is built in a thread: thousands of objects take longer than the event loop may stand still."""
    content = await asyncio.to_thread(lambda: written().encode())
    return Response(content, media_type="application/json")
