"""The gate hardly costs anything until an endpoint complains, then everybody goes slower."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from activities.concurrency.in_flight_limits import NOBODY, Caller
from activities.concurrency.shared_rate_limits import SharedLimit
from activities.endpoints.gate import ClosedForLong, Gate, Gates
from activities.endpoints.rate_memory import OwnRateMemory
from activities.targets.faults import Throttled
from tests.support.virtual_time import in_virtual_time
from workflows.model.spec.limits import RateLimit
from workflows.rules.learned_rate import Learned, Throttle

T = TypeVar("T")


async def refuse(gate: Gate, retry_after: float | None = None) -> None:
    """A call that the endpoint refuses."""
    with pytest.raises(Throttled):
        async with gate.call(NOBODY):
            raise Throttled("429", retry_after)


async def answer(gate: Gate, calls: int) -> None:
    for _ in range(calls):
        async with gate.call(NOBODY):
            pass


class TestRate:
    async def test_nothing_is_known_before_the_first_complaint(self) -> None:
        gate = Gate()
        await answer(gate, 20)
        assert gate.rate is None

    async def test_the_first_complaint_sets_it_below_what_the_endpoint_took(self) -> None:
        gate = Gate()
        await answer(gate, 40)
        await refuse(gate)
        await gate.enter(NOBODY)
        assert gate.rate is not None
        assert 15 <= gate.rate <= 22

    def test_calls_are_spaced_out(self) -> None:
        async def taken() -> float:
            now = asyncio.get_running_loop().time
            gate = Gate(clock=now)
            await answer(gate, 99)
            await refuse(gate)  # 50 a second and climbing
            started = now()
            await answer(gate, 30)
            return now() - started

        assert in_virtual_time(taken()) > 0.3

    async def test_a_call_that_fails_otherwise_teaches_nothing(self) -> None:
        gate = Gate()
        with pytest.raises(ConnectionError):
            async with gate.call(NOBODY):
                raise ConnectionError("reset")
        await gate.enter(NOBODY)
        assert gate.rate is None

    async def test_the_run_of_the_higher_priority_gets_more_turns_and_the_other_some(self) -> None:
        gate = Gate()
        await answer(gate, 60)
        await refuse(gate)
        order: list[str] = []

        async def call(run_id: str, priority: int) -> None:
            await gate.enter(Caller(run_id, priority))
            order.append(run_id)

        low = [asyncio.create_task(call("low", 1)) for _ in range(40)]
        high = [asyncio.create_task(call("high", 3)) for _ in range(40)]
        await asyncio.gather(*low, *high)
        first = order[:40]
        assert 5 <= first.count("low") <= 11, order


class TestRetryAfter:
    def test_it_closes_the_gate_for_everybody(self) -> None:
        async def taken() -> float:
            now = asyncio.get_running_loop().time
            gate = Gate(clock=now)
            await refuse(gate, 0.2)
            started = now()
            await asyncio.gather(*[gate.enter(NOBODY) for _ in range(3)])
            return now() - started

        assert in_virtual_time(taken()) >= 0.19

    def test_a_call_that_already_waits_for_its_turn_waits_for_it_too(self) -> None:
        async def taken() -> float:
            now = asyncio.get_running_loop().time
            gate = Gate(clock=now)
            await refuse(gate, 0.05)
            waiting = asyncio.create_task(gate.enter(NOBODY))
            await asyncio.sleep(0)
            gate._throttled(0.25, 0)
            started = now()
            await waiting
            return now() - started

        assert in_virtual_time(taken()) >= 0.2

    async def test_a_long_one_is_not_waited_for(self) -> None:
        gate = Gate()
        await refuse(gate, 120)
        with pytest.raises(ClosedForLong) as raised:
            await gate.enter(NOBODY)
        assert raised.value.seconds == pytest.approx(120, abs=1)

    async def test_one_that_becomes_long_ends_the_waiting(self) -> None:
        gate = Gate()
        await refuse(gate, 0.1)
        waiting = asyncio.create_task(gate.enter(NOBODY))
        await asyncio.sleep(0.02)
        gate._throttled(120, 0)
        with pytest.raises(ClosedForLong):
            await waiting

    def test_endpoints_and_models_have_their_own(self) -> None:
        gates = Gates()
        assert gates.at("a", "m") is gates.at("a", "m")
        assert gates.at("a", "m") is not gates.at("a", "n")
        assert gates.at("a", "m") is not gates.at("b", "m")


def on_the_workers_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Its timers of less than a millisecond are no timers."""
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not made for this platform")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(work, 30))


class TestComplaintsInTheMiddleOfABatch:
    def test_starts_that_are_due_within_a_millisecond_are_withdrawn_like_the_others(self) -> None:
        async def withdrawn() -> int:
            async def leased(*_: object) -> float:
                return 0.0002

            shared = SharedLimit(RateLimit(requests_per_minute=60 * 20_000), leased)
            waiting = [asyncio.create_task(shared.enter(Caller("run"))) for _ in range(50)]
            while not shared._starts:
                await asyncio.sleep(0)
            found = shared.withdraw()
            for task in waiting:
                task.cancel()
            return found

        assert on_the_workers_own_loop(withdrawn()) > 0

    async def test_a_complaint_that_could_not_be_kept_lets_calls_go_on(self) -> None:
        class Forgetful(OwnRateMemory):
            async def throttled(self, throttle: Throttle) -> Learned:
                raise RuntimeError("nobody listens")

        gate = Gate(Forgetful())
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        await refuse(gate)
        async with asyncio.timeout(30):
            await answer(gate, 1)
