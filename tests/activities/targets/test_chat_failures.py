"""Chat targets whose endpoint fails, throttles or refuses: what is tried again, and what is never an outcome."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiohttp import web
from temporalio.exceptions import ApplicationError

from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels, Patience
from activities.endpoints.endpoint_policy import NO_KEY
from activities.endpoints.gate import Gates
from activities.shards.shard_endings import RATE_LIMITED
from activities.targets.faults import Refused
from clients.demo.model_server import SimulatedModel
from tests.support.activity_attempts import activity_environment
from tests.support.allowed import lists_of
from tests.support.chat_runs import (
    KEY,
    MODEL,
    TICKETS,
    chat,
    completion,
    endpoint,
    evaluated,
    failure,
    run_for,
)
from tests.support.measured_runs import evaluation
from workflows.model.failures import PERMANENT_TARGET_ERROR

pytestmark = pytest.mark.usefixtures("measured_runs")


class TestInfrastructure:
    @pytest.mark.parametrize(
        "fault",
        [
            {"status": 500},
            {"status": 502},
            {"status": 503},
            {"status": 429},
            {"status": 408},
            {"status": 409},
            {"disconnect": True},
        ],
    )
    async def test_what_passes_is_tried_again(self, server: SimulatedModel, fault: dict[str, Any]) -> None:
        server.simulate({**fault, "first": 2})
        run = run_for(chat(server.base_url))
        assert (await evaluated(run)).evaluated == 1
        assert server.calls == 3
        assert (await run.by_sample())["s0"].status == "answered"

    @pytest.mark.parametrize("fault", [{"disconnect": True, "after_chunks": 1}, {"lie": "truncated_stream"}])
    async def test_a_stream_that_breaks_off_is_tried_again(self, server: SimulatedModel, fault: dict[str, Any]) -> None:
        server.simulate({**fault, "first": 1})
        run = run_for(chat(server.base_url, stream=True))
        assert (await evaluated(run)).evaluated == 1
        assert server.calls == 2

    @pytest.mark.parametrize("status", [429, 500, 503])
    async def test_what_stays_is_missing_and_never_an_outcome(self, server: SimulatedModel, status: int) -> None:
        server.simulate({"status": status, "contains": "number 1 "})
        run = run_for(chat(server.base_url), TICKETS[:3])
        quick = Patience(seconds=0.3, attempts=3, first_delay=0.01, longest_delay=0.02)
        result = await evaluated(run, patience=quick)
        assert (result.evaluated, result.missing) == (2, 1)
        assert set(await run.by_sample()) == {"s0", "s2"}
        assert f"HTTP {status}" in (result.first_error or "")
        assert (result.first_error or "").startswith("sample s1: ")

    async def test_an_endpoint_that_is_not_there_leaves_everything_missing(self) -> None:
        run = run_for(chat("http://127.0.0.1:9/v1"), TICKETS[:5])
        result = await evaluated(run)
        assert (result.evaluated, result.missing) == (0, 5)
        assert "http://127.0.0.1:9/v1 cannot be reached" in (result.first_error or "")

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            (web.Response, "not a JSON object: '<html>Bad gateway"),
            (lambda **_: web.json_response({"error": {"message": "no provider", "code": 502}}), "an error: {"),
        ],
    )
    async def test_what_somebody_tells_in_the_place_of_an_answer_is_no_outcome(self, answer: Any, text: str) -> None:
        async with endpoint(lambda _: answer(text="<html>Bad gateway</html>", content_type="text/html")) as url:
            result = await evaluated(run_for(chat(url)))
        assert (result.missing, result.errors) == (1, {"broken answer": 1})
        assert text in (result.first_error or "")

    @pytest.mark.parametrize("lie", ["malformed_json", "empty_choices"])
    async def test_an_answer_that_cannot_be_understood_is_not_paid_for_twice(self, server: SimulatedModel, lie: str) -> None:
        server.simulate({"lie": lie})
        run = run_for(chat(server.base_url), TICKETS[:3])
        assert (await evaluated(run)).evaluated == 3
        assert {outcome.error_class for outcome in (await run.outcomes()).values()} == {"broken answer"}
        assert server.calls == 3

    async def test_throttling_is_shared_by_all_calls(self, server: SimulatedModel) -> None:
        server.simulate({"rate_limit": {"per_second": 60, "burst": 10}})
        run = run_for(chat(server.base_url), TICKETS)
        result = await evaluated(run, patience=Patience(first_delay=0.02))
        assert (result.evaluated, result.missing) == (40, 0)
        assert server.stats()["by_status"]["200"] == 40

    async def test_a_retry_after_is_honoured_by_everybody(self, server: SimulatedModel) -> None:
        server.simulate({"status": 429, "retry_after": "1", "first": 1})
        models = ChatModels(Gates(), patience=Patience())
        ask: dict[str, Any] = {
            "base_url": server.base_url,
            "model": MODEL,
            "messages": [{"role": "user", "content": "?"}],
            "parameters": {},
        }
        ask |= {"stream": False, "timeout": 5, "prices": {}, "context": CallContext()}
        started = time.monotonic()
        first = asyncio.create_task(models.ask(**ask))
        async with asyncio.timeout(30):
            while models.gates.at(server.base_url, MODEL).rate is None:
                await asyncio.sleep(0.005)
        await models.ask(**ask)
        await first
        assert time.monotonic() - started >= 1
        assert server.calls == 3
        await models.close()

    async def test_a_long_one_frees_the_slot_and_keeps_what_is_there(self, server: SimulatedModel) -> None:
        server.simulate({"status": 429, "retry_after": "300", "after": 3})
        run = run_for(chat(server.base_url), TICKETS[:10])
        with pytest.raises(ApplicationError) as raised:
            async with evaluation(run) as evaluating:
                await activity_environment().run(evaluating.evaluate_shard, run.shard(10, concurrent_samples=1))
        assert raised.value.type == RATE_LIMITED
        assert not raised.value.non_retryable
        assert raised.value.next_retry_delay is not None
        assert 290 < raised.value.next_retry_delay.total_seconds() <= 300
        assert len(await run.outcomes()) == 3
        assert server.calls == 4


class TestRefusalsForGood:
    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_wrong_key_is_told_without_the_key(self, server: SimulatedModel, status: int) -> None:
        message = f"Incorrect API key provided: {KEY}. Or was it Bearer {KEY}"
        server.simulate({"status": status, "message": message})
        error = await failure(run_for(chat(server.base_url)), OPENAI_API_KEY=KEY)
        assert (error.type, error.non_retryable) == (PERMANENT_TARGET_ERROR, True)
        assert KEY not in str(error)
        assert KEY not in repr(error.__cause__ or "")
        for part in ("OPENAI_API_KEY", MODEL, server.base_url):
            assert part in error.message
        assert server.calls == 1

    async def test_a_model_that_does_not_exist_is_named(self, server: SimulatedModel) -> None:
        error = await failure(run_for(chat(server.base_url, model="gpt-17")))
        assert (error.type, error.non_retryable) == (PERMANENT_TARGET_ERROR, True)
        assert "'gpt-17'" in error.message
        assert "check the model's name" in error.message

    async def test_an_account_without_credit_is_not_asked_again(self) -> None:
        calls = 0

        def answer(_: dict[str, Any]) -> web.Response:
            nonlocal calls
            calls += 1
            error = {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}
            return web.json_response({"error": error}, status=429)

        async with endpoint(answer) as url:
            error = await failure(run_for(chat(url)))
        assert (error.type, calls) == (PERMANENT_TARGET_ERROR, 1)
        assert "no credit" in error.message

    async def test_a_url_that_is_wrong_is_named(self, server: SimulatedModel) -> None:
        error = await failure(run_for(chat(f"{server.url}/v2")))
        assert error.type == PERMANENT_TARGET_ERROR
        assert f"{server.url}/v2" in error.message

    async def test_what_was_answered_before_is_kept(self, server: SimulatedModel) -> None:
        server.simulate({"status": 401, "after": 3})
        run = run_for(chat(server.base_url), TICKETS[:10])
        with pytest.raises(ApplicationError):
            async with evaluation(run) as evaluating:
                await activity_environment().run(evaluating.evaluate_shard, run.shard(10, concurrent_samples=1))
        assert len(await run.outcomes()) == 3
        assert server.calls == 4


class TestKeys:
    async def test_loopback_needs_none(self, server: SimulatedModel) -> None:
        assert (await evaluated(run_for(chat(server.base_url)))).evaluated == 1

    async def test_one_that_is_missing_is_asked_for(self) -> None:
        error = await failure(run_for(chat("https://api.openai.com/v1")))
        assert "OPENAI_API_KEY is not set in the worker's environment" in error.message

    async def test_it_is_sent_only_where_the_operator_says(self) -> None:
        models = ChatModels(Gates(), lists_of({"OPENAI_API_KEY": KEY, "RATCHET_MODEL_URLS": "https://openrouter.ai"}))
        assert models._key_for("https://openrouter.ai/api/v1", MODEL) == KEY
        assert models._key_for("https://api.openai.com/v1", MODEL) == KEY
        assert models._key_for("http://127.0.0.1:1/v1", MODEL) == NO_KEY
        for stranger in ("https://evil.example/v1", "https://openrouter.ai.evil.example/v1", "http://api.openai.com/v1"):
            with pytest.raises(Refused, match="RATCHET_MODEL_URLS"):
                models._key_for(stranger, MODEL)

    async def test_the_base_url_of_the_worker_is_the_default(self, server: SimulatedModel) -> None:
        target = chat(server.base_url).model_copy(update={"base_url": None})
        assert (await evaluated(run_for(target), environment={"OPENAI_BASE_URL": f"{server.base_url}/"})).evaluated == 1

    async def test_it_goes_out_as_a_bearer_token(self) -> None:
        seen: list[str] = []

        def answer(body: dict[str, Any]) -> web.Response:
            seen.append(body["_request"].headers["Authorization"])
            return web.json_response(completion())

        async with endpoint(answer) as url:
            await evaluated(run_for(chat(url)), environment={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url})
        assert seen == [f"Bearer {KEY}"]
