"""How far a round is, told between its events.

It is made from the store's counts by the server that streams, for the runs that somebody follows: nothing of it is stored,
and Temporal's history does not grow by it. So it has no id, and is not resumed; where a stream goes on is said by stored
events alone.
"""

from __future__ import annotations

import asyncio
import json
from asyncio import sleep
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Final

import structlog

from store.read.rows.run_rows import LiveProgress

log = structlog.get_logger("http.feed")

SECONDS_APART: Final = 1.0
"""Between two of a run, at least."""
TIMES_THE_READING: Final = 20.0
"""The pause is at least so many times what reading took: a count over very many answers is taken less often."""

Read = Callable[[str], Awaitable[LiveProgress | None]]


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """The newest of them, as it goes over the wire."""

    number: int = 0
    after: int = 0
    """The event that was the newest one: whoever stands elsewhere is not told."""
    data: bytes = b""


class LiveRound:
    """Reads how far a run is, for as long as something of it is in flight."""

    def __init__(self, run_id: str, read: Read) -> None:
        self.frame = LiveFrame()
        self._run_id = run_id
        self._read = read
        self._news = asyncio.Event()
        self._newest = 0
        self._answered = 0

    def moved_to(self, newest: int) -> None:
        """There is a new event: whatever is in flight may have changed."""
        self._newest = newest
        self._answered = 0
        self._news.set()

    async def follow(self, tell: Callable[[], None]) -> None:
        """Make a frame whenever there are more answers, until this is cancelled."""
        pause = SECONDS_APART
        while True:
            await sleep(pause)
            begun, after = monotonic(), self._newest
            self._news.clear()
            try:
                progress = await self._read(self._run_id)
            except Exception as error:  # the store is away; readers of events are told by those who read them
                log.info("progress cannot be read", run_id=self._run_id, error=repr(error))
                continue
            pause = max(SECONDS_APART, (monotonic() - begun) * TIMES_THE_READING)
            if progress is None or not progress.expected:
                await self._news.wait()
            elif after == self._newest and progress.answered > self._answered:
                self._answered = progress.answered
                self.frame = LiveFrame(self.frame.number + 1, after, _told(self._run_id, after, progress))
                tell()


def _told(run_id: str, after: int, progress: LiveProgress) -> bytes:
    """The facts that the event of a decided round has, and what is in flight."""
    facts = {
        "optimization_id": run_id,
        "key": f"live/{after}/{progress.answered}",
        "at": datetime.now(UTC).isoformat(),
        "round": progress.round,
        "counts": progress.counts.model_dump(),
        "spend": progress.spend.model_dump(),
        "best_candidate_id": progress.best_candidate_id,
        "best_score": progress.best_score,
        "decisions": [],
        "in_flight": {"answered": progress.answered, "expected": progress.expected},
    }
    return f"event: progress_changed\ndata: {json.dumps(facts, ensure_ascii=False)}\n\n".encode()
