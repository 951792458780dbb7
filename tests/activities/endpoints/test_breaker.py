"""A target that is down ends its trial before every sample has paid for its own patience."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from temporalio.exceptions import ApplicationError

from activities.endpoints.breaker import IN_A_ROW, TRIES_IN_A_ROW, Breaker, Breakers, TargetDown
from activities.targets.faults import CandidateFault, Throttled, Unreachable
from ratchet import Sample
from tests.support.activity_attempts import activity_environment
from tests.support.http_endpoints import Asked, Endpoint, json_endpoint
from tests.support.measured_runs import QUICK, MeasuredRun, evaluation
from tests.support.suite_building import shard, suite
from workflows.model.failures import PERMANENT_TARGET_ERROR
from workflows.model.spec.scorers.matches import ContainsScorer
from workflows.model.spec.targets.http import HttpTarget

pytestmark = pytest.mark.usefixtures("measured_runs")

SAMPLES = [Sample(f"s{n}", {"n": n}, "x") for n in range(60)]


async def _fails(kind: str = "http 500") -> str:
    raise Unreachable("HTTP 500: down", kind=kind)


async def _answers() -> str:
    return "fine"


async def given_up(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        with pytest.raises(Unreachable):
            await breaker.answered(_fails)


class TestTheBreaker:
    async def test_after_several_in_a_row_and_a_last_try_alone_the_target_is_down(self) -> None:
        breaker = Breaker()
        await given_up(breaker, IN_A_ROW)
        with pytest.raises(TargetDown, match=r"6 samples in a row .* \(http 500 × 6\); last error: HTTP 500: down"):
            await breaker.answered(_fails)

    async def test_from_then_on_nothing_is_called_any_more(self) -> None:
        breaker, calls = Breaker(), 0

        async def count() -> str:
            nonlocal calls
            calls += 1
            return "fine"

        await given_up(breaker, IN_A_ROW)
        for call in (_fails, count, count):
            with pytest.raises(TargetDown):
                await breaker.answered(call)
        assert calls == 0

    async def test_an_answer_in_between_begins_the_count_anew(self) -> None:
        breaker = Breaker()
        for _ in range(5):
            await given_up(breaker, IN_A_ROW - 1)
            assert await breaker.answered(_answers) == "fine"

    async def test_an_outage_that_is_over_lets_all_go_on_side_by_side(self) -> None:
        breaker, in_flight, most = Breaker(), 0, 0

        async def slow() -> None:
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            await asyncio.sleep(0.05)
            in_flight -= 1

        await given_up(breaker, IN_A_ROW)
        first = asyncio.create_task(breaker.answered(slow))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(breaker.answered(slow)) for _ in range(10)]
        await asyncio.sleep(0.02)
        assert most == 1
        await asyncio.gather(first, *waiting)
        assert most == 10

    async def test_a_candidates_fault_says_nothing_of_the_target(self) -> None:
        breaker = Breaker()

        async def raises() -> str:
            raise CandidateFault("no")

        for _ in range(20):
            with pytest.raises(CandidateFault):
                await breaker.answered(raises)
        assert await breaker.answered(_answers) == "fine"

    async def test_what_was_met_is_counted_by_class(self) -> None:
        breaker = Breaker()
        await given_up(breaker, IN_A_ROW)

        async def throttled() -> str:
            raise Throttled("HTTP 429", None)

        with pytest.raises(TargetDown) as raised:
            await breaker.answered(throttled)
        assert raised.value.kinds == {"http 500": IN_A_ROW, "http 429": 1}

    def test_a_trial_has_one_as_long_as_somebody_works_on_it(self) -> None:
        breakers = Breakers()
        one = breakers.of("a")
        assert breakers.of("a") is one is not breakers.of("b")
        del one
        assert not breakers._breakers


@pytest.fixture
async def down() -> AsyncIterator[Endpoint]:
    async with json_endpoint(lambda _: web.json_response({"detail": "maintenance"}, status=500)) as endpoint:
        yield endpoint


def run_for(url: str, samples: list[Sample] = SAMPLES) -> MeasuredRun:
    target = HttpTarget.model_validate({"kind": "http", "url": url, "body": {"n": "{{input.n}}"}})
    return MeasuredRun(suite(target, scorers=[ContainsScorer(kind="contains", values=[])]), samples)


async def evaluated(run: MeasuredRun, **more: Any) -> Any:
    async with evaluation(run) as evaluating:
        return await activity_environment().run(evaluating.evaluate_shard, run.shard(len(run.samples), **more))


class TestShards:
    @pytest.mark.parametrize("concurrency", [1, 8])
    async def test_a_target_that_is_down_ends_the_shard_early(self, down: Endpoint, concurrency: int) -> None:
        with pytest.raises(ApplicationError) as raised:
            await evaluated(run_for(down.url), concurrent_samples=concurrency)
        error = raised.value
        assert (error.type, error.non_retryable) == (PERMANENT_TARGET_ERROR, True)
        assert "gave up on the target" in error.message and "maintenance" in error.message
        assert error.details[0]["errors"] == {"http 500": IN_A_ROW + 1}

    @pytest.mark.parametrize("concurrency", [1, 8, 60])
    async def test_of_many_samples_in_flight_only_a_few_spend_their_retries(self, down: Endpoint, concurrency: int) -> None:
        with pytest.raises(ApplicationError):
            await evaluated(run_for(down.url), concurrent_samples=concurrency)
        in_full = (IN_A_ROW + 1) * QUICK.attempts
        assert in_full <= len(down.asked) <= in_full + max(concurrency, TRIES_IN_A_ROW) + TRIES_IN_A_ROW

    async def test_an_outage_within_its_patience_costs_no_sample_however_many_wait_for_its_end(self) -> None:
        tries: Counter[int] = Counter()

        def answer(asked: Asked) -> web.Response:
            tries[asked.body["n"]] += 1
            return web.json_response({}, status=200 if max(tries.values()) == QUICK.attempts else 500)

        async with json_endpoint(answer) as endpoint:
            result = await evaluated(run_for(endpoint.url), concurrent_samples=40)
        assert (result.evaluated, result.missing, result.errors) == (60, 0, {})

    async def test_shards_of_one_trial_find_out_together(self, down: Endpoint) -> None:
        run = run_for(down.url)
        async with evaluation(run) as evaluating:
            parts = [shard(first + 10, first=first, concurrent_samples=6) for first in range(0, 60, 10)]
            ended = await asyncio.gather(
                *(activity_environment().run(evaluating.evaluate_shard, part) for part in parts), return_exceptions=True
            )
        assert all(isinstance(one, ApplicationError) for one in ended)
        assert len(down.asked) <= (IN_A_ROW + 1) * QUICK.attempts + 6 * 6 + 2 * TRIES_IN_A_ROW

    async def test_a_few_samples_that_never_get_an_answer_are_only_missing(self) -> None:
        def answer(asked: Asked) -> web.Response:
            return web.json_response({}, status=500) if asked.body["n"] % 10 == 3 else web.json_response({"text": "x"})

        async with json_endpoint(answer) as endpoint:
            result = await evaluated(run_for(endpoint.url), concurrent_samples=1)
        assert (result.evaluated, result.missing, result.errors) == (54, 6, {"http 500": 6})

    async def test_an_outage_costs_the_samples_it_hit_and_no_others(self) -> None:
        def answer(_: Asked) -> web.Response:
            down = 10 < len(endpoint.asked) <= 10 + IN_A_ROW * QUICK.attempts
            return web.json_response({}, status=500 if down else 200)

        async with json_endpoint(answer) as endpoint:
            result = await evaluated(run_for(endpoint.url), concurrent_samples=1)
        assert (result.evaluated, result.missing, result.errors) == (60 - IN_A_ROW, IN_A_ROW, {"http 500": IN_A_ROW})
