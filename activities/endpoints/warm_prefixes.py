"""The first request of many that begin alike goes ahead: once it is answered, the provider's cache holds what they share.

Asked all at once, each of them would pay for reading the same text, and some for putting it into the cache.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

LIFETIME_SECONDS: Final = 240.0
"""For so long after its last use a beginning is taken to be in the cache; providers promise five minutes."""

LONGEST_WAIT_SECONDS: Final = 30.0
"""Nobody waits longer for the one ahead."""

MOST_PREFIXES: Final = 1_000


class _Prefix:
    def __init__(self, now: float) -> None:
        self.answered = asyncio.Event()
        self.used = now


class WarmPrefixes:
    """The beginnings that this process sent lately."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, longest_wait: float = LONGEST_WAIT_SECONDS) -> None:
        self._clock = clock
        self._longest_wait = longest_wait
        self._known: OrderedDict[str, _Prefix] = OrderedDict()

    @asynccontextmanager
    async def asking(self, key: str | None) -> AsyncIterator[None]:
        """Ask with a beginning of this name, after the one that asked first; with none, at once."""
        if key is None:
            yield
            return
        known, now = self._known.get(key), self._clock()
        if known is not None and now - known.used <= LIFETIME_SECONDS:
            known.used = now
            await self._behind(known)
            yield
            return
        ahead = self._known[key] = _Prefix(now)
        self._known.move_to_end(key)
        if len(self._known) > MOST_PREFIXES:
            self._known.popitem(last=False)
        try:
            yield
        except BaseException:
            if self._known.get(key) is ahead:
                del self._known[key]  # it warmed nothing: the next one goes ahead
            raise
        finally:
            ahead.answered.set()

    async def _behind(self, ahead: _Prefix) -> None:
        try:
            async with asyncio.timeout(self._longest_wait):
                await ahead.answered.wait()
        except TimeoutError:
            return
