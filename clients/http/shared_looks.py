"""One look at the store for all who ask the same at once: a thousand pages that follow a run ask together after each trial."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Looks:
    """What is under way for one question. Nobody joins a look that has begun: it may miss what he has just changed."""

    begun: asyncio.Task[bytes] | None = None
    next: asyncio.Task[bytes] | None = None


@dataclass(frozen=True, slots=True)
class SharedLooks:
    """Of each question at most one look is under way, and one more waits for it. Nothing is kept behind it."""

    _of: dict[str, _Looks] = field(default_factory=dict)

    async def answer(self, question: str, look: Callable[[], Awaitable[bytes]]) -> bytes:
        """What a look finds that begins after this was asked. Who stops waiting stops nobody else."""
        looks = self._of.setdefault(question, _Looks())
        if looks.next is None:
            looks.next = asyncio.create_task(self._after(question, looks, looks.begun, look))
            looks.next.add_done_callback(_take_note)
        return await asyncio.shield(looks.next)

    async def _after(
        self, question: str, looks: _Looks, before: asyncio.Task[bytes] | None, look: Callable[[], Awaitable[bytes]]
    ) -> bytes:
        if before is not None:
            await asyncio.wait({before})
        looks.begun, looks.next = looks.next, None
        try:
            return await look()
        finally:
            if looks.next is None:
                self._of.pop(question, None)


def _take_note(ended: asyncio.Task[bytes]) -> None:
    """Where everybody has stopped waiting, what went wrong is nobody's any more."""
    if not ended.cancelled():
        ended.exception()
