"""Patience with endpoints: what is tried again, how often, and how long, for one call."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from activities.endpoints.breaker import Breaker, Effort
from activities.endpoints.call_context import CallContext
from activities.endpoints.gate import Gate
from activities.targets.faults import CandidateFault, Throttled, TookTooLong, Unreachable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long infrastructure is tried again for one call before it is given up."""

    seconds: float = 120.0
    attempts: int = 8
    """Throttling does not count towards these, only towards the time."""
    first_delay: float = 0.5
    longest_delay: float = 20.0
    slow_attempts: int = 3
    """How often a call that takes too long is made, as long as most others to that endpoint are answered in time."""


async def patiently(gate: Gate, call: Callable[[], Awaitable[T]], patience: Patience, context: CallContext) -> T:
    """The call's result. Waits for the gate, and tries again what infrastructure broke, with backoff and jitter.

    A call that takes too long may have been lost on its way, which is nobody's fault, or be slow for good, which is the
    candidate's: it is told apart by trying again.
    """
    effort = context.effort or Effort(Breaker())
    attempts = slow = 0
    first_failure: float | None = None
    delay = patience.first_delay
    while True:
        try:
            async with gate.call(context.caller):
                result = await call()
        except TookTooLong:
            gate.slow_calls.too_long()
            slow += 1
            if slow >= patience.slow_attempts or not gate.slow_calls.is_exception:
                raise
        except Unreachable as error:
            now = time.monotonic()
            if first_failure is None:
                first_failure = now
            pause = delay * random.uniform(0.5, 1.0)
            if isinstance(error, Throttled):
                if error.retry_after:
                    pause = 0.0  # the gate itself keeps everybody waiting
            else:
                attempts += 1
                effort.got_nothing()
            if attempts >= patience.attempts or now - first_failure + pause > patience.seconds:
                raise
            delay = min(delay * 2, patience.longest_delay)
            await asyncio.sleep(pause)
            first_failure += await effort.held_up()
        except CandidateFault:
            effort.got_an_answer()
            raise
        else:
            gate.slow_calls.in_time()
            effort.got_an_answer()
            return result
