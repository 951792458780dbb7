"""What providers of batches share: how a batch goes, what becomes of each request, and what goes wrong on the way.

How a batch goes is said before it is made, in `plans`, one for each batch in the order in which they are made; without one it
is completed at the first look. Every request that is answered is counted: each is paid for.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from aiohttp import web

PROMPT_TOKENS, COMPLETION_TOKENS = 10, 1
OVER = ("completed", "failed", "expired", "cancelled")


@dataclass
class Plan:
    """How one batch goes."""

    looks: int = 0
    """So many looks find it in progress before it ends."""
    ends: str = "completed"
    answers: int | None = None
    """Of an expired or failed batch, so many requests were answered. None: all."""
    statuses: dict[int, int] = field(default_factory=dict)
    """What is answered instead of 200, by the number of the request in its file."""
    silent: tuple[int, ...] = ()
    """Requests of which no file says anything."""
    forget_after: int | None = None
    """After so many looks, the server knows no such batch."""
    error: tuple[str, str] | None = None
    """Why the batch failed as a whole."""
    garbage: tuple[str, ...] = ()
    """Lines that stand in the file of answers, too."""
    held: bool = False
    """It goes on until somebody releases it, or cancels it."""


@dataclass
class Batch:
    number: int
    plan: Plan
    metadata: dict[str, str] = field(default_factory=dict)
    """What it carries of its sender's."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """As they were sent, where they came with the batch."""
    input_file: str = ""
    created_at: int = field(default_factory=lambda: int(time.time()))
    status: str = "validating"
    looks: int = 0
    results: list[Any] = field(default_factory=list)
    output_file: str | None = None
    error_file: str | None = None

    @property
    def batch_id(self) -> str:
        return f"batch_{self.number}"

    @property
    def is_over(self) -> bool:
        return self.status in OVER


@dataclass(frozen=True)
class Became:
    """What became of a request: its answer, a status in its place, or a reason why it was not run."""

    request: dict[str, Any]
    said: str | None = None
    status: int | None = None
    never_run: str | None = None


class BatchedProvider:
    """Answers by `answer(body)`: a text, for what a chat request says."""

    provider: ClassVar[str]

    def __init__(self, answer: Callable[[dict[str, Any]], str], folder: Path) -> None:
        self._answer = answer
        self._folder = folder
        self.url = ""
        self.task_queue = ""
        """Of workers that know it, where there are some of their own."""
        self.plans: list[Plan] = []
        self.batches: dict[str, Batch] = {}
        self.asked = Counter[str]()
        self.paid = Counter[str]()
        """How often each request was answered in a batch, by its custom id."""
        self.chats: list[dict[str, Any]] = []
        self.released = False
        self.keeps_metadata = True
        self.stumbles: dict[str, list[str]] = {}
        """What goes wrong, by the name of a request: `lost` does it and cuts the connection, a number is a status."""
        self.before: Callable[[str], Any] = lambda _: None
        self.after: Callable[[str], Any] = lambda _: None
        self._numbers = itertools.count(1)

    # -- what a protocol says itself --------------------------------------------------------------------------------------

    @abstractmethod
    def routes(self, app: web.Application) -> None:
        """Where what is asked."""

    @abstractmethod
    def custom_id_of(self, request: dict[str, Any]) -> str:
        """The name of a request, as we make it."""

    @abstractmethod
    def asked_in(self, request: dict[str, Any]) -> dict[str, Any]:
        """A request as one for a chat completion."""

    @abstractmethod
    def conclude(self, batch: Batch) -> None:
        """Write down what became of its requests."""

    @abstractmethod
    def error(self, status: int, message: str) -> web.Response:
        """An error in its words."""

    def name_of(self, request: web.Request, handler: Any) -> str:
        """What is asked, by which it is counted and may stumble."""
        return str(handler.__name__)

    # -- how batches go ---------------------------------------------------------------------------------------------------

    def requests_of(self, batch: Batch) -> list[dict[str, Any]]:
        return batch.requests

    def begun(self, **given: Any) -> Batch:
        """A batch that is made now."""
        plan = self.plans.pop(0) if self.plans else Plan()
        batch = Batch(next(self._numbers), plan, **given)
        self.batches[batch.batch_id] = batch
        requests = self.requests_of(batch)
        assert len({self.custom_id_of(one) for one in requests}) == len(requests) > 0
        return batch

    def looked_at(self, batch_id: str) -> Batch | None:
        """The batch after one more look, if it is known."""
        batch = self.batches.get(batch_id)
        if batch is None:
            return None
        batch.looks += 1
        self._go_on(batch)
        is_forgotten = batch.plan.forget_after is not None and batch.looks > batch.plan.forget_after
        return None if is_forgotten else batch

    def cancelled(self, batch_id: str) -> Batch | None:
        """The batch whose end was asked for; None where it is over."""
        batch = self.batches[batch_id]
        if batch.status not in ("validating", "in_progress"):
            return None
        batch.plan.ends, batch.plan.held = "cancelled", False
        batch.plan.looks, batch.status = batch.looks + 1, "cancelling"
        return batch

    def newest(self, after: str | None, most: int) -> tuple[list[Batch], bool]:
        """A page of batches, and whether there are more. Small, so that there are several."""
        listed = list(reversed(self.batches.values()))
        if after:
            listed = listed[[one.batch_id for one in listed].index(after) + 1 :]
        page = listed[: min(most, 2)]
        return page, len(listed) > len(page)

    def became(self, batch: Batch) -> Iterator[Became]:
        """What became of each request. Those that were answered are paid for."""
        plan, requests = batch.plan, self.requests_of(batch)
        answered = len(requests) if plan.answers is None else plan.answers
        for place, one in enumerate(requests):
            if place in plan.silent:
                continue
            if place >= answered:
                yield Became(one, never_run="cancelled" if plan.ends == "cancelled" else "expired")
            elif place in plan.statuses:
                yield Became(one, status=plan.statuses[place])
            else:
                self.paid[self.custom_id_of(one)] += 1
                yield Became(one, said=self._answer(self.asked_in(one)))

    def chatted(self, body: dict[str, Any]) -> str:
        """The answer to what is asked at once."""
        self.chats.append(body)
        return self._answer(body)

    def _go_on(self, batch: Batch) -> None:
        if batch.is_over:
            return
        if batch.status != "cancelling":
            batch.status = "in_progress"
        if batch.looks <= batch.plan.looks or (batch.plan.held and not self.released):
            return
        batch.status = batch.plan.ends
        if batch.plan.error is None:
            self.conclude(batch)

    # -- serving it -------------------------------------------------------------------------------------------------------

    @web.middleware
    async def _stumbling(self, request: web.Request, handler: Any) -> web.StreamResponse:
        name = self.name_of(request, handler)
        self.asked[name] += 1
        stumble = self.stumbles[name].pop(0) if self.stumbles.get(name) else ""
        if stumble.isdigit():
            return self.error(int(stumble), "simulated")
        await _awaited(self.before(name))
        response: web.StreamResponse = await handler(request)
        await _awaited(self.after(name))
        if stumble == "lost":
            assert request.transport is not None
            request.transport.abort()
        return response

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._stumbling], client_max_size=1 << 30)
        self.routes(app)
        return app


async def _awaited(given: Any) -> None:
    if asyncio.iscoroutine(given):
        await given
