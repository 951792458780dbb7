"""Streams over HTTP: the events of one run, resumable by id, and a hint that any run has changed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Protocol

import structlog
from fastapi import APIRouter, Header, Query
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clients.http.access.callers import Callers, NotAdmitted
from clients.http.backend import Backend, RunId, Served
from clients.http.errors import Refused, responses
from clients.http.feed import MOST_SUBSCRIBERS, Feed, Topic
from clients.http.missing_run import refuse_unknown_run, refused_before_it_began
from store.connection import is_away

HEARTBEAT_EVERY: Final = 15.0
"""Seconds of silence after which a comment says that the stream lives."""
STILL_ADMITTED_EVERY: Final = 15.0
"""Seconds after which it is asked again whether the reader's token lets him in."""
BEGINS_WITHIN: Final = 3.0
"""Seconds after which it is asked whether a run that has no event yet was refused."""
AGAIN_AFTER: Final = 0.5
"""Seconds until a store that is away is asked again."""
HINTS_APART: Final = 0.5
"""Seconds between two hints that runs have changed."""
BEGINNING: Final = b"retry: 1000\n\n"
HEARTBEAT: Final = b": heartbeat\n\n"
RUNS_CHANGED: Final = b"event: runs_changed\ndata: {}\n\n"

EVENT_ID = r"^(0|[1-9]\d{0,17})$"
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID", pattern=EVENT_ID, description="The last event that was received; the stream goes on after it."
    ),
]
FirstEventId = Annotated[
    str | None,
    Query(
        alias="last_event_id",
        pattern=EVENT_ID,
        description="The same for a browser's first request, which cannot send the header.",
    ),
]
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events until the client leaves: `id`, `event`, and `data`, one JSON object.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}

log = structlog.get_logger("http.streams")
router = APIRouter(prefix="/v1/private", tags=["events"])
Emit = Callable[[bytes], Awaitable[None]]


class Pours(Protocol):
    """Hands out chunks until the ear hears that there is nobody to hand them to."""

    async def __call__(self, emit: Emit, ear: Ear) -> None: ...


class Ear:
    """What a stream waits with: it hears of news, of the reader's leaving and of the server's closing."""

    def __init__(self, feed: Feed) -> None:
        self.heard = asyncio.Event()
        self.gone = False
        self._feed = feed

    @property
    def is_wanted(self) -> bool:
        return not (self.gone or self._feed.closed)

    def leave(self) -> None:
        self.gone = True
        self.heard.set()

    async def wait(self, at_most: float) -> bool:
        """Whether anything was heard; what is heard from now on is heard next time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self.heard.wait()
                return True
        return False


class EventStream(Response):
    """Server-sent events. Sending waits for the network: what a slow reader has not taken is not even read."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, pour: Pours, status_code: int = 200) -> None:
        super().__init__(status_code=status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._feed = feed
        self._pour = pour

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ear = Ear(self._feed)
        leaving = [asyncio.create_task(_until_gone(receive, ear)), asyncio.create_task(_until_not_admitted(scope, ear))]

        async def emit(chunk: bytes) -> None:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

        try:
            with self._feed.seat(ear.heard):
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await emit(BEGINNING)
                await self._pour(emit, ear)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            for task in leaving:
                task.cancel()


async def _until_gone(receive: Receive, ear: Ear) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    ear.leave()


async def _until_not_admitted(scope: Scope, ear: Ear) -> None:
    """A token that is revoked, or ends, ends what it opened."""
    callers: Callers = scope["app"].state.callers
    while True:
        await asyncio.sleep(STILL_ADMITTED_EVERY)
        try:
            await callers.of(Headers(scope=scope))
        except NotAdmitted:
            ear.leave()
            return
        except Exception as error:
            log.warning("tokens cannot be looked up", error=repr(error))


@router.get(
    "/optimizations/{optimization_id}/events",
    operation_id="streamEvents",
    response_class=EventStream,
    responses=STREAM | responses(404),
)
async def stream_events(
    run_id: RunId, backend: Served, last_event_id: LastEventId = None, first: FirstEventId = None
) -> EventStream:
    """What happens to a run, in order, each event once: from the beginning, or from the event after the last one received.

    Events: run_status_changed, progress_changed, trial_added_or_updated, best_candidate_changed, run_finished, release_changed,
    approval_due. While trials run, progress_changed comes at most once a second, as their answers do: with `in_flight`, and
    without an id, as it is not stored. The stream may be opened as soon as the run was accepted. One that is refused before it
    began is told by a run_finished without an id, as it left no event.
    """
    _refuse_crowd(backend.feed)
    await refuse_unknown_run(backend, run_id)
    start = int(last_event_id or first or 0)

    async def pour(emit: Emit, ear: Ear) -> None:
        async with backend.feed.topic(run_id) as topic:
            with topic.changed.heard_by(ear.heard):
                await _pour_beginning(backend, topic, emit, ear)
                await _pour_events(backend.feed, topic, start, emit, ear)

    return EventStream(backend.feed, pour)


async def _pour_beginning(backend: Backend, topic: Topic, emit: Emit, ear: Ear) -> None:
    """Wait for a run's first event; one that ended without any is told as ended."""
    while ear.is_wanted and topic.newest == 0:
        with contextlib.suppress(Exception):  # whatever is away is asked again
            refused = await refused_before_it_began(backend, topic.run_id)
            if refused is not None:
                facts = {"optimization_id": topic.run_id, "status": "failed", "message": refused}
                await emit(b"event: run_finished\ndata: " + json.dumps(facts, ensure_ascii=False).encode() + b"\n\n")
                return
        ear.heard.clear()
        if topic.newest == 0 and not await ear.wait(BEGINS_WITHIN):
            await emit(HEARTBEAT)


async def _pour_events(feed: Feed, topic: Topic, last: int, emit: Emit, ear: Ear) -> None:
    last = await feed.place_of(topic, last)
    live = 0
    while ear.is_wanted:
        ear.heard.clear()
        try:
            last, chunk = await feed.next_chunk(topic, last)
        except Exception as error:
            if not is_away(error):
                raise
            log.warning("a stream waits for the store", run_id=topic.run_id, error=repr(error))
            await ear.wait(AGAIN_AFTER)
            continue
        frame = topic.live.frame
        if chunk:
            await emit(chunk)
        elif frame.number > live and frame.after == last:
            live = frame.number
            await emit(frame.data)
        elif not await ear.wait(HEARTBEAT_EVERY):
            await emit(HEARTBEAT)


@router.get("/events", operation_id="streamHints", response_class=EventStream, responses=STREAM | responses())
async def stream_hints(backend: Served) -> EventStream:
    """A hint, `runs_changed`, whenever any run has changed: the moment to read the list of runs again. They are not resumed."""
    _refuse_crowd(backend.feed)
    feed = backend.feed

    async def pour(emit: Emit, ear: Ear) -> None:
        with feed.anything.heard_by(ear.heard):
            while ear.is_wanted:
                heard = await ear.wait(HEARTBEAT_EVERY)
                ear.heard.clear()
                await emit(RUNS_CHANGED if heard else HEARTBEAT)
                await asyncio.sleep(HINTS_APART if heard else 0)

    return EventStream(feed, pour)


def _refuse_crowd(feed: Feed) -> None:
    if feed.seats >= MOST_SUBSCRIBERS:
        raise Refused(503, f"{MOST_SUBSCRIBERS:,} streams are open, which is all this server serves; try again", retry_after=5)
