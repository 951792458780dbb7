"""The feed: one connection to PostgreSQL listens for the whole process, and every subscriber is handed the events of its run.

A subscriber is no more than the id of the last event it was handed. What it has not seen is in the run's newest frames, which
all its subscribers share, or, when it is further behind, in the store. So a reader that is slow costs nothing but its place, a
notification that gets lost costs a few seconds, and whatever restarts, nothing is lost or handed over twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import structlog
from temporalio.common import MetricMeter

from clients.http.live_progress import LiveRound
from store.connection import Database
from store.events import EVENTS_CHANNEL
from store.read.reader import StoreReader
from store.read.rows.event_rows import WireEvent
from workflows.metrics import EVENT_LAG, Spread

log = structlog.get_logger("http.feed")

MOST_FRAMES: Final = 512
"""Events of a run that its subscribers share in memory."""
MOST_BYTES: Final = 256 * 1024
LARGEST_CHUNK: Final = 32 * 1024
"""What is handed to the network at once; nothing more of a slow reader is in memory."""
EVENTS_PER_READ: Final = 500
EVENTS_PER_CHUNK: Final = 100
"""What a reader that is behind has read for it: about as much as fits into a chunk."""
LOOK_ANYWAY_EVERY: Final = 5.0
"""Seconds after which a run's events are looked at although nobody said there were new ones."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
MOST_SUBSCRIBERS: Final = 5000


@dataclass(frozen=True, slots=True)
class EventFrame:
    """An event as it goes over the wire."""

    id: int
    data: bytes


def frame_of(run_id: str, event: WireEvent) -> EventFrame:
    """The event as SSE: its id, its type, and one line of JSON, which escapes every line break in it."""
    head = json.dumps({"optimization_id": run_id, "key": event.key, "at": event.created_at.isoformat()}, ensure_ascii=False)
    rest = event.payload.strip()[1:]
    data = f"{head[:-1]}, {rest}" if rest != "}" else head
    return EventFrame(event.id, f"id: {event.id}\nevent: {event.type}\ndata: {data}\n\n".encode())


@dataclass(slots=True)
class Signal:
    """Wakes up everybody who waits for it, again and again."""

    _waiting: set[asyncio.Event] = field(default_factory=set)

    @contextlib.contextmanager
    def heard_by(self, ear: asyncio.Event) -> Iterator[None]:
        self._waiting.add(ear)
        try:
            yield
        finally:
            self._waiting.discard(ear)

    def give(self) -> None:
        for ear in self._waiting:
            ear.set()

    def __len__(self) -> int:
        return len(self._waiting)


@dataclass(slots=True)
class Topic:
    """The newest events of one run, for all its subscribers."""

    run_id: str
    newest: int
    """Every event up to here was read, or was there before this topic was."""
    floor: int
    """Every event after it, up to the newest, is among the frames."""
    changed: Signal = field(default_factory=Signal)
    subscribers: int = 0
    _frames: deque[EventFrame] = field(default_factory=deque)
    _size: int = 0
    _chunks: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    live: LiveRound = field(init=False)
    lag: Spread = field(default_factory=lambda: Spread(MetricMeter.noop, EVENT_LAG))

    def listen(self, reader: StoreReader) -> list[asyncio.Task[None]]:
        """What keeps it up to date, for as long as there is a subscriber."""
        self.live = LiveRound(self.run_id, reader.runs.progress)
        self.live.moved_to(self.newest)
        return [asyncio.create_task(self.follow(reader)), asyncio.create_task(self.live.follow(self.changed.give))]

    def stir(self) -> None:
        """There may be something new in the store."""
        self._stirred.set()

    async def follow(self, reader: StoreReader) -> None:
        """Keep the newest frames."""
        pause = FIRST_PAUSE
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stirred.wait(), LOOK_ANYWAY_EVERY)
            self._stirred.clear()
            try:
                while await self._read_on(reader):
                    pass
                pause = FIRST_PAUSE
            except Exception as error:
                # The store is away, or refuses: subscribers wait, and miss nothing when it is back.
                log.warning("events cannot be read", run_id=self.run_id, error=repr(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                self.stir()

    async def _read_on(self, reader: StoreReader) -> bool:
        """Take up what the store has after the newest; whether there may be more."""
        events = await reader.events.wire(self.run_id, after=self.newest, limit=EVENTS_PER_READ)
        if events:
            self._add([frame_of(self.run_id, event) for event in events])
            self._note_lag(events)
            self.live.moved_to(self.newest)
            self.changed.give()
        return len(events) == EVENTS_PER_READ

    def _note_lag(self, events: Sequence[WireEvent]) -> None:
        """By two clocks: where they differ so does what they say, but never below nothing."""
        now = datetime.now(UTC)
        for event in events:
            self.lag.record(max(0.0, (now - event.created_at).total_seconds()))

    def _add(self, frames: Sequence[EventFrame]) -> None:
        for frame in frames:
            self._frames.append(frame)
            self._size += len(frame.data)
            self.newest = frame.id
        while self._frames and (len(self._frames) > MOST_FRAMES or self._size > MOST_BYTES):
            dropped = self._frames.popleft()
            self._size -= len(dropped.data)
            self.floor = dropped.id
        self._chunks.clear()

    def after(self, last: int) -> tuple[int, bytes]:
        """What comes after an event that is not below the floor: one chunk, made once for all who stand at the same place."""
        if last >= self.newest:
            return last, b""
        known = self._chunks.get(last)
        if known is None:
            known = self._chunks[last] = chunk_of([frame for frame in self._frames if frame.id > last], last)
        return known


def chunk_of(frames: Sequence[EventFrame], last: int) -> tuple[int, bytes]:
    """As many frames as fit into a chunk, at least one, and the id of the last of them."""
    parts: list[bytes] = []
    size = 0
    for frame in frames:
        if parts and size + len(frame.data) > LARGEST_CHUNK:
            break
        parts.append(frame.data)
        size += len(frame.data)
        last = frame.id
    return last, b"".join(parts)


class Feed:
    """All topics of this process, and the connection that listens for them."""

    def __init__(self, database: Database, meter: MetricMeter = MetricMeter.noop) -> None:
        self._database = database
        self._lag = Spread(meter, EVENT_LAG)
        self._reader = StoreReader(database)
        self._topics: dict[str, Topic] = {}
        self._followers: dict[str, list[asyncio.Task[None]]] = {}
        self._opening = asyncio.Lock()
        self.anything = Signal()
        """Given whenever any run has something new."""
        self.closing = Signal()
        self.closed = False
        self.listening = asyncio.Event()
        """Set while the connection listens."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Feed]:
        """Listen until the block is left; then every stream ends."""
        listener = asyncio.create_task(self._listen())
        try:
            yield self
        finally:
            self.close()
            tasks = [listener, *(task for tasks in self._followers.values() for task in tasks)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """End every stream; readers come back to whoever serves next."""
        self.closed = True
        self.closing.give()

    @contextlib.contextmanager
    def seat(self, ear: asyncio.Event) -> Iterator[None]:
        """A place for one stream, which hears when the feed closes."""
        with self.closing.heard_by(ear):
            yield

    @property
    def seats(self) -> int:
        """Streams that are open."""
        return len(self.closing)

    @asynccontextmanager
    async def topic(self, run_id: str) -> AsyncIterator[Topic]:
        """The topic of a run, for as long as somebody follows it."""
        async with self._opening:
            topic = self._topics.get(run_id)
            if topic is None:
                newest = await self._reader.events.last_id(run_id)
                topic = self._topics[run_id] = Topic(run_id, newest, newest, lag=self._lag)
                self._followers[run_id] = topic.listen(self._reader)
                topic.stir()  # what was announced since the newest was asked for
            topic.subscribers += 1
        try:
            yield topic
        finally:
            topic.subscribers -= 1
            if topic.subscribers == 0:
                del self._topics[run_id]
                for follower in self._followers.pop(run_id):
                    follower.cancel()

    async def place_of(self, topic: Topic, last: int) -> int:
        """Where a subscriber stands. An id that was never given, by us or by the database before a restore, is no place."""
        if last <= topic.newest or last <= await self._reader.events.last_id(topic.run_id):
            return last
        return 0

    async def next_chunk(self, topic: Topic, last: int) -> tuple[int, bytes]:
        """What a subscriber is handed next, and where it then stands; nothing when it has everything."""
        if last >= topic.floor:
            return topic.after(last)
        newest = topic.newest
        events = await self._reader.events.wire(topic.run_id, after=last, limit=EVENTS_PER_CHUNK)
        if not events:
            return max(last, newest), b""  # all that were read before us are visible to us
        return chunk_of([frame_of(topic.run_id, event) for event in events], last)

    async def _listen(self) -> None:
        """Hear of new events; after every loss of the connection each topic looks for itself."""
        pause = FIRST_PAUSE
        while True:
            try:
                async with self._database.notifications(EVENTS_CHANNEL) as told:
                    pause = FIRST_PAUSE
                    self.listening.set()
                    self._stir_all()
                    while (run_id := await told.get()) is not None:
                        self._stir(run_id)
                log.warning("the connection that listens for events was lost; connecting again")
            except Exception as error:
                log.warning("events cannot be listened for", error=repr(error))
            self.listening.clear()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _stir(self, run_id: str) -> None:
        if run_id in self._topics:
            self._topics[run_id].stir()
        self.anything.give()

    def _stir_all(self) -> None:
        for topic in self._topics.values():
            topic.stir()
        self.anything.give()
