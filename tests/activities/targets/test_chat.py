"""Chat targets against a real HTTP server: what is sent, what comes back, and what of it is the candidate's fault."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from clients.demo.model_server import SimulatedModel
from ratchet import Sample
from tests.support.chat_runs import (
    MODEL,
    TICKETS,
    chat,
    completion,
    endpoint,
    evaluated,
    outcome_of,
    run_for,
)
from workflows.model.spec.prices import Price

pytestmark = pytest.mark.usefixtures("measured_runs")


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
