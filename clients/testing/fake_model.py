"""A model for tests: a real HTTP server on this machine that speaks the OpenAI protocol, and does as a test says."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypedDict, TypeVar, Unpack

from clients.demo.call_log import LoggedCall
from clients.demo.injected_faults import Lie, RuleLike
from clients.demo.model_server import SimulatedModel, Unanswerable
from clients.demo.protocol import ChatRequest

T = TypeVar("T")
STARTS_WITHIN: Final = 10.0


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """What a fake model was asked."""

    model: str
    messages: tuple[dict[str, Any], ...]
    body: dict[str, Any]
    """The whole request, with temperature, tools and so on."""
    text: str
    """The texts of all messages, one below the other."""
    last: str
    """The text of the last message of the user."""


@dataclass(frozen=True, slots=True)
class FakeCall:
    """A call that a fake model got, and what became of it."""

    request: FakeRequest | None
    """None where it was no chat, or none that can be read."""
    status: int | None
    """The HTTP status; None while there is none, and where the connection ended without one."""
    reply: str | None
    """The text that was answered; None for errors and calls of tools."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a reply returns to have a tool called."""

    name: str
    arguments: Mapping[str, Any]


Replied = str | ToolCall | Mapping[str, Any] | list[Any]
Reply = str | Mapping[str, str] | Callable[[FakeRequest], Replied | Awaitable[Replied]]


class When(TypedDict, total=False):
    """Which requests something is done to; without any of these, all of them."""

    after: int
    """Leave the first so many alone."""
    first: int
    """Only so many, from then on."""
    every: int
    """Only every so manieth."""
    times: int
    """At most so often."""
    probability: float
    seed: int
    """Of the probability."""
    model: str
    """Only requests for this model."""
    contains: str
    """Only requests whose messages contain this text."""


class FakeModel:
    """A running fake model. `fake_model` makes one."""

    def __init__(self, reply: Reply, key: str | None) -> None:
        self._reply = reply
        self._server = SimulatedModel(required_key=key, answering=self._answered)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._turn, name="fake model", daemon=True)

    def __repr__(self) -> str:
        return f"<ratchet.testing.FakeModel {self.url}, {len(self.calls)} calls>"

    @property
    def url(self) -> str:
        """What OpenAI clients take as base URL, and OPENAI_BASE_URL says."""
        return self._server.base_url

    @property
    def calls(self) -> list[FakeCall]:
        """Every call so far, in the order in which they came."""
        return self._told(lambda: [_call_of(call) for call in self._server.heard or ()])

    @property
    def most_at_once(self) -> int:
        """How many calls were in flight at the same time, at most."""
        return int(self._told(self._server.stats)["max_concurrent"])

    def fail(
        self, status: int = 500, message: str = "The fake model fails.", *, retry_after: str | None = None, **when: Unpack[When]
    ) -> None:
        """Answer with an error; `retry_after` is the header of that name: seconds, or an HTTP date."""
        self._does({"status": status, "message": message, "retry_after": retry_after, **when})

    def throttle(
        self, per_second: float, *, burst: int | None = None, retry_after: str | None = None, **when: Unpack[When]
    ) -> None:
        """Answer 429 beyond so many requests a second, with the true time to wait unless `retry_after` says another."""
        self._does({"rate_limit": {"per_second": per_second, "burst": burst, "retry_after": retry_after}, **when})

    def delay(self, milliseconds: float, *, jitter: float = 0.0, **when: Unpack[When]) -> None:
        """Take so long for an answer, give or take the fraction `jitter` of it."""
        self._does({"latency": {"mean_ms": milliseconds, "jitter": jitter}, **when})

    def stall(self, seconds: float | None = None, **when: Unpack[When]) -> None:
        """Be silent for so long before the answer; None is for ever."""
        self._does({"stall": True if seconds is None else seconds, **when})

    def disconnect(self, **when: Unpack[When]) -> None:
        """Cut the connection instead of answering."""
        self._does({"disconnect": True, **when})

    def lie(self, kind: Lie, **when: Unpack[When]) -> None:
        """Answer with something that is no proper answer."""
        self._does({"lie": kind, **when})

    def reset(self) -> None:
        """Forget all calls, and do none of these things any more."""
        self._told(self._server.reset)

    def _does(self, rule: RuleLike) -> None:
        self._told(lambda: self._server.simulate(rule))

    def _told(self, work: Callable[[], T]) -> T:
        """Do something where the server is, and wait for it."""
        done: Future[T] = Future()

        def work_there() -> None:
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)

        if self._loop.is_running():
            self._loop.call_soon_threadsafe(work_there)
        else:  # the block was left: there is nobody to disturb
            work_there()
        return done.result()

    async def _answered(self, chat: ChatRequest) -> tuple[str | None, tuple[str, str] | None]:
        request = _request_of(chat)
        replied = await self._replied(request)
        if isinstance(replied, ToolCall):
            return None, (replied.name, json.dumps(dict(replied.arguments), ensure_ascii=False))
        return replied if isinstance(replied, str) else json.dumps(replied, ensure_ascii=False), None

    async def _replied(self, request: FakeRequest) -> Replied:
        reply = self._reply
        if isinstance(reply, str):
            return reply
        if isinstance(reply, Mapping):
            for part, answer in reply.items():
                if part in request.text:
                    return answer
            raise Unanswerable(400, f"fake_model: none of the texts of its reply is in this request: {', '.join(reply)}")
        try:
            # In a thread, whatever it waits for holds up nobody else.
            returned = reply(request) if inspect.iscoroutinefunction(reply) else await _in_thread(reply, request)
            return await returned if isinstance(returned, Awaitable) else returned
        except Exception as error:
            raise Unanswerable(500, f"fake_model: its reply raised {type(error).__name__}: {error}") from error

    def _start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(STARTS_WITHIN)

    def _stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(STARTS_WITHIN)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STARTS_WITHIN)

    def _turn(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


@contextmanager
def fake_model(reply: Reply = "ok", *, key: str | None = None) -> Iterator[FakeModel]:
    """Serve a model for as long as the block lasts: any name of a model, any OpenAI client, with or without a stream.

    `reply` is the answer; or answers by a text that the request contains, the first that fits; or a function of the request
    that returns a text, something to be written as JSON, or a `ToolCall`. With a `key` any other API key is refused.
    """
    model = FakeModel(reply, key)
    model._start()
    try:
        yield model
    finally:
        model._stop()


async def _in_thread(
    reply: Callable[[FakeRequest], Replied | Awaitable[Replied]], request: FakeRequest
) -> Replied | Awaitable[Replied]:
    return await asyncio.get_running_loop().run_in_executor(None, reply, request)


def _request_of(chat: ChatRequest) -> FakeRequest:
    place = chat.last_user_index
    body = chat.model_dump(mode="json", exclude_unset=True, by_alias=True)
    return FakeRequest(
        model=chat.model,
        messages=tuple(body["messages"]),
        body=body,
        text="\n".join(message.text for message in chat.messages),
        last="" if place is None else chat.messages[place].text,
    )


def _call_of(call: LoggedCall) -> FakeCall:
    answered = call.answer.content if call.answer is not None and call.outcome == "200" else None
    status = int(call.outcome) if call.outcome.isdigit() else None
    return FakeCall(None if call.chat is None else _request_of(call.chat), status, answered)
