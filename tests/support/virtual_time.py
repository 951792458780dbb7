"""An event loop whose clock jumps to the next thing that is due, and an endpoint that lives in it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from activities.endpoints.call_context import CallContext
from activities.endpoints.gate import ClosedForLong, Gate
from activities.endpoints.rate_memory import OwnRateMemory, RateMemory
from activities.endpoints.retry_policy import Patience, patiently
from activities.targets.faults import Throttled
from workflows.rules.learned_rate import Learned, Throttle

T = TypeVar("T")

ENDLESS = Patience(seconds=1e9, attempts=10**9)


class VirtualTime(asyncio.SelectorEventLoop):
    """Nothing is waited for: when nothing is ready, it is as late as it must be for something to be."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0
        selector = self._selector  # type: ignore[attr-defined]
        select = selector.select

        def at_once(timeout: float | None) -> Any:
            self._now += timeout or 0.0
            return select(0)

        selector.select = at_once

    def time(self) -> float:
        return self._now


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(work)


@dataclass
class Endpoint:
    """Takes so many calls a second in the long run and `burst` at once, and says 429 to the others."""

    per_second: float
    burst: float
    seconds: float = 0.05
    """That an answer takes."""
    reaction: float = 0.01
    """That a refusal takes."""
    tells: Literal["exactly", "whole seconds", "nothing"] = "exactly"
    """Its Retry-After."""
    answered: int = 0
    refused: int = 0
    _tokens: float | None = None
    _filled_at: float = 0.0

    @property
    def share_refused(self) -> float:
        return self.refused / (self.answered + self.refused)

    async def call(self) -> None:
        await asyncio.sleep(self.reaction * random.uniform(0.3, 0.7))
        now = asyncio.get_running_loop().time()
        filled = self.burst if self._tokens is None else self._tokens + (now - self._filled_at) * self.per_second
        self._tokens, self._filled_at = min(self.burst, filled), now
        if self._tokens < 1.0:
            self.refused += 1
            wait = (1.0 - self._tokens) / self.per_second
            await asyncio.sleep(self.reaction * random.uniform(0.3, 0.7))
            raise Throttled("429", {"exactly": wait, "whole seconds": float(math.ceil(wait)), "nothing": None}[self.tells])
        self._tokens -= 1.0
        self.answered += 1
        await asyncio.sleep(self.seconds * random.uniform(0.8, 1.2))


class StoredElsewhere(OwnRateMemory):
    """As in PostgreSQL: every question takes a moment, in which others may have asked theirs."""

    async def lease(self, known: Learned, calls: int, refused: int) -> tuple[float, Learned | None]:
        await asyncio.sleep(0.001)
        leased = await super().lease(known, calls, refused)
        await asyncio.sleep(0.001)
        return leased

    async def throttled(self, throttle: Throttle) -> Learned:
        await asyncio.sleep(0.001)
        learned = await super().throttled(throttle)
        await asyncio.sleep(0.001)
        return learned


async def called(
    endpoint: Endpoint, calls: int, *, workers: int = 1, at_once: int = 64, rate_memory: RateMemory | None = None
) -> float:
    """Have so many calls answered by workers with so many calls in flight each; in how many seconds."""
    loop = asyncio.get_running_loop()
    began, left = loop.time(), iter(range(calls))
    shared = rate_memory or StoredElsewhere()

    async def keep_calling(gate: Gate) -> None:
        for _ in left:
            while True:
                try:
                    await patiently(gate, endpoint.call, ENDLESS, CallContext())
                    break
                except ClosedForLong as closed:
                    await asyncio.sleep(closed.seconds)

    gates = [Gate(shared, clock=loop.time) for _ in range(workers)]
    await asyncio.gather(*[keep_calling(gate) for gate in gates for _ in range(at_once)])
    return loop.time() - began
