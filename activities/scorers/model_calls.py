"""Asking models in order to score an answer that is already paid for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from activities.endpoints.gate import ClosedForLong

T = TypeVar("T")


async def asked(ask: Callable[[], Awaitable[T]], patience: float) -> T:
    """The model's answer. An endpoint that is closed for a while is waited for: giving the slot back would throw away the
    answer that is to be scored, and pay for it again."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return await ask()
        except ClosedForLong as closed:
            if time.monotonic() + closed.seconds > deadline:
                raise
            await asyncio.sleep(closed.seconds)
