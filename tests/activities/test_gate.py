"""The gate costs nothing until an endpoint complains, then everybody goes slower."""

from __future__ import annotations

import asyncio
import time

import pytest

from activities.fair_queue import Caller, calling_for
from activities.gate import ClosedForLong, Gate, Gates


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class TestRate:
    async def test_nothing_is_paced_before_the_first_complaint(self) -> None:
        gate = Gate()
        started = time.perf_counter()
        for _ in range(5000):
            await gate.enter()
            gate.succeeded()
        assert gate.rate is None
        assert time.perf_counter() - started < 0.2

    def test_the_first_complaint_sets_it_below_what_the_endpoint_took(self, clock: Clock) -> None:
        gate = Gate(clock)
        _answer(gate, clock, calls=200, seconds=1.0)
        gate.throttled()
        assert gate.rate == pytest.approx(200 * 0.85, rel=0.02)

    def test_it_falls_at_most_once_a_second(self, clock: Clock) -> None:
        gate = Gate(clock)
        _answer(gate, clock, calls=100, seconds=1.0)
        for _ in range(50):
            gate.throttled()
        assert gate.rate == pytest.approx(85, rel=0.03)
        clock.now += 1.1
        gate.throttled()
        assert gate.rate == pytest.approx(85 * 0.85, rel=0.03)

    def test_it_grows_with_success_by_a_constant_amount_a_second(self, clock: Clock) -> None:
        gate = Gate(clock)
        _answer(gate, clock, calls=100, seconds=1.0)
        gate.throttled()
        before = gate.rate
        assert before is not None
        for _ in range(round(before)):
            gate.succeeded()
        assert gate.rate == pytest.approx(before + 5, abs=0.5)

    def test_it_doubles_every_second_after_a_complaint_that_says_nothing(self, clock: Clock) -> None:
        gate = Gate(clock)
        gate.throttled()
        rates = []
        for _ in range(6):
            assert gate.rate is not None
            rates.append(gate.rate)
            for _ in range(round(gate.rate)):
                gate.succeeded()
        assert rates[0] == 5 * 0.85
        assert rates[5] > 100

    def test_a_rate_that_was_never_used_up_is_lowered_to_what_was(self, clock: Clock) -> None:
        gate = Gate(clock)
        gate.throttled()
        for _ in range(60):
            _answer(gate, clock, calls=50, seconds=1.0)
        gate.throttled()
        assert gate.rate == pytest.approx(50 * 1.2 * 0.85, rel=0.05)

    def test_it_never_reaches_zero(self, clock: Clock) -> None:
        gate = Gate(clock)
        for _ in range(100):
            gate.throttled()
            clock.now += 2
        assert gate.rate == 0.5

    async def test_calls_are_spaced_out(self) -> None:
        gate = Gate()
        for _ in range(118):
            gate.succeeded()
        gate.throttled()  # 100 a second
        started = time.perf_counter()
        for _ in range(30):
            await gate.enter()
        assert 0.2 < time.perf_counter() - started < 0.6

    async def test_the_run_of_the_higher_priority_gets_more_turns_and_the_other_some(self) -> None:
        gate = Gate()
        for _ in range(235):
            gate.succeeded()
        gate.throttled()  # 200 a second
        order: list[str] = []

        async def call(run_id: str, priority: int) -> None:
            with calling_for(Caller(run_id, priority)):
                await gate.enter()
            order.append(run_id)

        low = [asyncio.create_task(call("low", 1)) for _ in range(40)]
        high = [asyncio.create_task(call("high", 3)) for _ in range(40)]
        await asyncio.gather(*low, *high)
        first = order[11:51]  # those that came at once were all there was
        assert 5 <= first.count("low") <= 11, order


class TestRetryAfter:
    async def test_it_closes_the_gate_for_everybody(self) -> None:
        gate = Gates().at("http://one/v1", "m")
        gate.throttled(0.2)
        started = time.perf_counter()
        await asyncio.gather(*[gate.enter() for _ in range(3)])
        assert time.perf_counter() - started >= 0.19

    async def test_a_call_that_already_waits_for_its_turn_waits_for_it_too(self) -> None:
        gate = Gate()
        gate.throttled(0.05)
        waiting = asyncio.create_task(gate.enter())
        await asyncio.sleep(0)
        gate.throttled(0.25)
        started = time.perf_counter()
        await waiting
        assert time.perf_counter() - started >= 0.2

    async def test_a_long_one_is_not_waited_for(self) -> None:
        gate = Gate()
        gate.throttled(120)
        with pytest.raises(ClosedForLong) as raised:
            await gate.enter()
        assert raised.value.seconds == pytest.approx(120, abs=1)

    def test_endpoints_and_models_have_their_own(self) -> None:
        gates = Gates()
        assert gates.at("a", "m") is gates.at("a", "m")
        assert gates.at("a", "m") is not gates.at("a", "n")
        assert gates.at("a", "m") is not gates.at("b", "m")


def _answer(gate: Gate, clock: Clock, *, calls: int, seconds: float) -> None:
    for _ in range(calls):
        clock.now += seconds / calls
        gate.succeeded()
