"""Chat targets against a real HTTP server: what is sent, what comes back, and whose fault it is when nothing does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
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
from ratchet import Sample
from tests.support.activity_attempts import activity_environment
from tests.support.allowed import lists_of
from tests.support.measured_runs import QUICK, MeasuredRun, evaluation
from tests.support.suite_building import suite
from workflows.model.failures import PERMANENT_TARGET_ERROR
from workflows.model.spec.objective import Objective
from workflows.model.spec.prices import Price
from workflows.model.spec.scorers.matches import ContainsScorer
from workflows.model.spec.targets.chat import ChatTarget
from workflows.model.suite import Outcome
from workflows.model.trial import ShardResult

pytestmark = pytest.mark.usefixtures("measured_runs")

MODEL = "simulated-triage-small"
KEY = "sk-very-secret-4711"
TICKETS = [Sample(f"s{n}", {"ticket": f"The invoice number {n} is wrong."}, "x") for n in range(40)]
Handler = Callable[[dict[str, Any]], Awaitable[web.StreamResponse] | web.StreamResponse]


def chat(base_url: str, **more: Any) -> ChatTarget:
    messages = [
        {"role": "system", "content": "{{factors.prompt}}"},
        {"role": "user", "content": "{{input.ticket}}"},
    ]
    return ChatTarget.model_validate({"kind": "chat", "messages": messages, "model": MODEL, "base_url": base_url, **more})


def run_for(target: ChatTarget, samples: list[Sample] | None = None, **more: Any) -> MeasuredRun:
    scorers = [ContainsScorer(kind="contains", values=[])]
    configuration = {"prompt": "Sort the ticket.", **more.pop("factors", {})}
    return MeasuredRun(suite(target, scorers=scorers, objective=Objective(), **more), samples or TICKETS[:1], configuration)


async def evaluated(
    run: MeasuredRun, *, patience: Patience = QUICK, environment: Mapping[str, str] | None = None
) -> ShardResult:
    async with evaluation(run, environment=environment, patience=patience) as evaluating:
        return await activity_environment().run(evaluating.evaluate_shard, run.shard(len(run.samples)))


async def failure(run: MeasuredRun, **environment: str) -> ApplicationError:
    with pytest.raises(ApplicationError) as raised:
        await evaluated(run, environment=environment)
    return raised.value


@asynccontextmanager
async def endpoint(handler: Handler) -> AsyncIterator[str]:
    """An endpoint that does whatever a test needs; gives its base URL."""

    async def answer(request: web.Request) -> web.StreamResponse:
        answered = handler({**await request.json(), "_request": request})
        return await answered if isinstance(answered, Awaitable) else answered

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def completion(content: Any = "billing", *, finish: str = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    spent = usage or {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice], "usage": spent}


async def outcome_of(answer: Any, *, headers: dict[str, str] | None = None, status: int = 200, **more: Any) -> Outcome:
    """The outcome of one sample whose endpoint gives this answer."""
    body = answer if isinstance(answer, str) else json.dumps(answer)
    async with endpoint(lambda _: web.Response(text=body, status=status, headers=headers)) as url:
        run = run_for(chat(url), **more)
        await evaluated(run)
    return (await run.by_sample())["s0"]


class TestRequests:
    async def sent(self, target: dict[str, Any], factors: dict[str, Any], ticket: Any = "My parcel is lost.") -> dict[str, Any]:
        """What one sample's request looks like at the endpoint."""
        seen: list[dict[str, Any]] = []

        def answer(body: dict[str, Any]) -> web.Response:
            seen.append({name: value for name, value in body.items() if name != "_request"})
            return web.json_response(completion())

        async with endpoint(answer) as url:
            run = run_for(chat(url, **target), [Sample("s0", {"ticket": ticket}, "x")], factors=factors)
            assert (await evaluated(run)).evaluated == 1
        return seen[0]

    async def test_messages_are_filled_and_nothing_else_is_sent(self) -> None:
        assert await self.sent({}, {"tone": "kind"}) == {
            "model": MODEL,
            "messages": [
                {"role": "system", "content": "Sort the ticket."},
                {"role": "user", "content": "My parcel is lost."},
            ],
        }

    async def test_factors_named_like_parameters_are_sent_as_such(self) -> None:
        factors = {"temperature": 0.2, "max_tokens": 5, "reasoning_effort": "low", "stop": ["\n"], "top_p": None, "other": 1}
        body = await self.sent({}, factors)
        assert {name: body.get(name) for name in factors} == {**factors, "other": None}

    async def test_parameters_win_over_factors_and_may_be_unknown_to_the_sdk(self) -> None:
        body = await self.sent(
            {"parameters": {"temperature": 0, "top_k": 40, "provider": {"order": ["a"]}}}, {"temperature": 1}
        )
        assert (body["temperature"], body["top_k"], body["provider"]) == (0, 40, {"order": ["a"]})

    async def test_placeholders_in_parameters_keep_the_type_of_their_factor(self) -> None:
        parameters = {
            "temperature": "{{factors.heat}}",
            "user": "run of {{factors.heat}}",
            "metadata": {"t": "{{input.ticket}}"},
        }
        body = await self.sent({"parameters": parameters}, {"heat": 0.3})
        assert (body["temperature"], body["user"], body["metadata"]) == (0.3, "run of 0.3", {"t": "My parcel is lost."})

    async def test_the_model_is_the_factor_by_default(self) -> None:
        assert (await self.sent({"model": "{{factors.model}}"}, {"model": "gpt-5-mini"}))["model"] == "gpt-5-mini"

    async def test_a_samples_own_braces_stay_as_they_are(self) -> None:
        body = await self.sent({}, {}, ticket="{{factors.prompt}} {{input.ticket}} {x}")
        assert body["messages"][1]["content"] == "{{factors.prompt}} {{input.ticket}} {x}"

    async def test_examples_are_sent_like_the_live_message(self) -> None:
        examples = [{"input": {"ticket": "It crashed."}, "output": "bug"}]
        live = {"role": "user", "content": "Ticket: {{input.ticket}}\nLabel:"}
        told = {"messages": [{"role": "system", "content": "{{factors.prompt}}\n{{factors.examples}}"}, live]}
        body = await self.sent(told, {"examples": examples})
        assert body["messages"][0]["content"] == "Sort the ticket.\nTicket: It crashed.\nLabel: bug"
        body = await self.sent({"messages": [{"splice": "{{factors.examples}}"}, live]}, {"examples": examples})
        assert body["messages"] == [
            {"role": "user", "content": "Ticket: It crashed.\nLabel:"},
            {"role": "assistant", "content": "bug"},
            {"role": "user", "content": "Ticket: My parcel is lost.\nLabel:"},
        ]

    async def test_an_example_that_lacks_what_the_live_message_names_is_the_candidates_fault(self) -> None:
        async with endpoint(lambda _: web.json_response(completion())) as url:
            told = [{"role": "user", "content": "{{factors.examples}}\n{{input.ticket}}"}]
            run = run_for(chat(url, messages=told), factors={"examples": [{"input": "x", "output": "y"}]})
            await evaluated(run)
        assert "is not in the input of factors.examples[0]" in ((await run.by_sample())["s0"].error or "")

    async def test_an_unknown_placeholder_is_the_candidates_fault(self) -> None:
        async with endpoint(lambda _: web.json_response(completion())) as url:
            run = run_for(chat(url), factors={"prompt": "Sort {{input.subject}}."})
            await evaluated(run)
        assert "{{input.subject}} names nothing known" in ((await run.by_sample())["s0"].error or "")


class TestAnswers:
    async def test_tokens_cost_and_latency_are_counted(self) -> None:
        usage = {
            "prompt_tokens": 1000,
            "completion_tokens": 100,
            "total_tokens": 1100,
            "prompt_tokens_details": {"cached_tokens": 400},
        }
        prices = {MODEL: Price(input=2.0, output=10.0, cached_input=0.5)}
        outcome = await outcome_of(completion(usage=usage), prices=prices)
        assert (outcome.tokens, outcome.output) == (1100, "billing")
        assert outcome.cost == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6)
        assert outcome.latency_ms is not None
        assert outcome.ttft_ms is None

    async def test_cached_tokens_cost_as_much_as_others_unless_a_price_is_given(self) -> None:
        usage = {"prompt_tokens": 1000, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 400}}
        outcome = await outcome_of(completion(usage=usage), prices={MODEL: Price(input=2.0, output=10.0)})
        assert outcome.cost == pytest.approx(0.002)

    @pytest.mark.parametrize("usage", [{"prompt_tokens": "many"}, {"prompt_tokens": None, "completion_tokens": -5}, [1]])
    async def test_usage_that_makes_no_sense_counts_as_nothing(self, usage: Any) -> None:
        outcome = await outcome_of(completion(usage=usage))
        assert (outcome.status, outcome.tokens) == ("answered", 0)

    async def test_tool_calls_are_an_answer(self) -> None:
        call = {"id": "1", "type": "function", "function": {"name": "route", "arguments": '{"team": "billing"}'}}
        outcome = await outcome_of(completion(None, finish="tool_calls", tool_calls=[call]))
        assert outcome.output == {"content": None, "tool_calls": [{"name": "route", "arguments": {"team": "billing"}}]}

    async def test_a_truncated_answer_is_one_and_says_so(self) -> None:
        outcome = await outcome_of(completion("bil", finish="length"))
        assert (outcome.output, outcome.trace) == ("bil", {"finish_reason": "length"})

    async def test_streaming_measures_the_time_to_the_first_token(self, server: SimulatedModel) -> None:
        server.simulate({"latency": {"mean_ms": 60}})
        whole, streamed = run_for(chat(server.base_url)), run_for(chat(server.base_url, stream=True))
        await evaluated(whole)
        one = (await whole.by_sample())["s0"]
        await evaluated(streamed)
        other = (await streamed.by_sample())["s0"]
        assert one.status == other.status == "answered"
        assert one.ttft_ms is None
        assert other.ttft_ms is not None
        assert other.latency_ms is not None
        assert 0 < other.ttft_ms <= other.latency_ms
        assert other.tokens > 0

    async def test_tool_calls_arrive_in_pieces(self) -> None:
        pieces = [
            {"tool_calls": [{"index": 0, "function": {"name": "route", "arguments": '{"team"'}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": ': "billing"}'}}]},
        ]
        chunks = [{"choices": [{"index": 0, "delta": piece}]} for piece in pieces]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"

        async with endpoint(lambda _: web.Response(text=text, content_type="text/event-stream")) as url:
            run = run_for(chat(url, stream=True))
            await evaluated(run)
        assert (await run.by_sample())["s0"].output["tool_calls"] == [{"name": "route", "arguments": {"team": "billing"}}]


class TestTheCandidatesFaults:
    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            (completion("x", finish="content_filter"), "withheld by the content filter"),
            (completion(None, refusal="I cannot help with that."), "the model refused: I cannot help with that."),
            (completion(""), "empty answer (finish reason stop)"),
            (completion(None, finish="length"), "max_tokens may be too small"),
        ],
    )
    async def test_answers_that_are_none_are_paid_for_and_count_as_failed(self, answer: Any, text: str) -> None:
        outcome = await outcome_of(answer)
        assert outcome.status == "failed"
        assert text in (outcome.error or "")
        assert outcome.tokens == 110

    @pytest.mark.parametrize("status", [400, 413, 422])
    async def test_a_request_that_is_refused_is_a_failed_outcome(self, status: int) -> None:
        outcome = await outcome_of({"error": {"message": "temperature is too high", "type": "invalid"}}, status=status)
        assert outcome.error == f"the model refused the request (HTTP {status}): temperature is too high"

    @pytest.mark.parametrize("stream", [False, True])
    async def test_an_answer_that_takes_too_long_is_a_failed_outcome(self, server: SimulatedModel, stream: bool) -> None:
        server.simulate({"stall": True, **({"after_chunks": 1} if stream else {})})
        run = run_for(chat(server.base_url, stream=stream), sample_timeout=timedelta(seconds=0.2))
        await evaluated(run)
        outcome = (await run.by_sample())["s0"]
        assert (outcome.error, outcome.error_class) == ("took longer than the sample timeout of 0.2 s", "timeout")
        assert server.calls == 3

    async def test_a_call_that_was_lost_on_its_way_is_made_again(self, server: SimulatedModel) -> None:
        server.simulate({"stall": True, "first": 2})
        run = run_for(chat(server.base_url), sample_timeout=timedelta(seconds=0.2))
        await evaluated(run)
        assert (await run.by_sample())["s0"].status == "answered"
        assert server.calls == 3

    async def test_a_model_that_is_always_too_slow_is_not_asked_again_for_everything(self, server: SimulatedModel) -> None:
        server.simulate({"stall": True})
        run = run_for(chat(server.base_url), TICKETS, sample_timeout=timedelta(seconds=0.2))
        assert (await evaluated(run)).evaluated == 40
        assert server.calls < 60


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
