"""HTTP targets against real endpoints: what is sent, what is read of the answer, and whose fault it is when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError
from temporalio.exceptions import ApplicationError

from ratchet import Sample
from ratchet._formats.canonical import content_hash
from ratchet._text.explanation import explain
from tests.support.activity_attempts import activity_environment
from tests.support.http_endpoints import Answering, Asked, json_endpoint
from tests.support.measured_runs import QUICK, MeasuredRun, evaluation
from tests.support.suite_building import suite
from tests.support.traced import Traced
from workflows.model.failures import PERMANENT_TARGET_ERROR
from workflows.model.spec.scorers.matches import ContainsScorer
from workflows.model.spec.targets.http import HttpTarget
from workflows.model.suite import Outcome
from workflows.model.trial import ShardResult

pytestmark = pytest.mark.usefixtures("measured_runs")

TOKEN = "very-secret-4711"
QUESTION = [Sample("s0", {"question": "Why?", "top": 3, "parts": ["a", "b"]}, "x")]
FACTORS = {"prompt": "Answer: {{input.question}}", "temperature": 0.5, "tools": [{"name": "search"}], "none": None}


def target(url: str, **more: Any) -> HttpTarget:
    return HttpTarget.model_validate({"kind": "http", "url": url, **more})


def run_for(target: HttpTarget, samples: list[Sample] | None = None, **more: Any) -> MeasuredRun:
    more.setdefault("scorers", [ContainsScorer(kind="contains", values=[])])
    return MeasuredRun(suite(target, **more), samples or QUESTION, FACTORS)


async def evaluated(run: MeasuredRun, **environment: str) -> ShardResult:
    async with evaluation(run, environment=environment) as evaluating:
        return await activity_environment().run(evaluating.evaluate_shard, run.shard(len(run.samples)))


async def failure(run: MeasuredRun, **environment: str) -> ApplicationError:
    with pytest.raises(ApplicationError) as raised:
        await evaluated(run, **environment)
    return raised.value


def ok(_: Asked) -> web.Response:
    return web.json_response({"text": "because"})


async def outcome_of(answering: Answering, **more: Any) -> Outcome:
    async with json_endpoint(answering) as endpoint:
        run = run_for(target(endpoint.url, **more))
        await evaluated(run)
    return (await run.by_sample())["s0"]


async def asked_by(environment: Mapping[str, str] | None = None, **more: Any) -> Asked:
    async with json_endpoint(ok) as endpoint:
        url = endpoint.origin + more.pop("path", "/answer")
        named = {name: value.replace("ORIGIN", endpoint.origin) for name, value in (environment or {}).items()}
        assert (await evaluated(run_for(target(url, **more)), **named)).evaluated == 1
    assert len(endpoint.asked) == 1
    return endpoint.asked[0]


async def test_an_endpoint_is_told_the_trace_that_its_call_is_part_of() -> None:
    traced = Traced()
    async with json_endpoint(ok) as endpoint:
        run = run_for(target(endpoint.url))
        async with evaluation(run, observation=traced.observation) as evaluating:
            with traced.activity():
                await activity_environment().run(evaluating.evaluate_shard, run.shard(1))
    [call, activity] = traced.spans
    assert call.context is not None
    assert call.parent == activity.context
    assert endpoint.asked[0].headers["traceparent"].split("-")[1:3] == [
        f"{call.context.trace_id:032x}",
        f"{call.context.span_id:016x}",
    ]


class TestRequests:
    async def test_by_default_input_and_configuration_are_sent_as_they_are(self) -> None:
        asked = await asked_by()
        assert (asked.method, asked.body) == ("POST", {"input": QUESTION[0].input, "configuration": FACTORS})
        assert asked.headers["Content-Type"] == "application/json"

    async def test_placeholders_are_filled_and_whole_ones_keep_their_type(self) -> None:
        body = {
            "q": "{{factors.prompt}} ({{input.top}} times)",
            "k": "{{input.top}}",
            "temperature": "{{ factors.temperature }}",
            "tools": ["{{factors.tools}}", {"parts": "{{input.parts}}"}],
            "none": "{{factors.none}}",
            "fixed": [1, True, None],
        }
        assert (await asked_by(body=body)).body == {
            "q": "Answer: Why? (3 times)",
            "k": 3,
            "temperature": 0.5,
            "tools": [[{"name": "search"}], {"parts": ["a", "b"]}],
            "none": None,
            "fixed": [1, True, None],
        }

    async def test_every_request_says_what_it_is_for(self) -> None:
        headers = (await asked_by()).headers
        told = {name: headers[f"X-Ratchet-{name}"] for name in ("Run", "Trial", "Candidate", "Overlay", "Sample", "Replicate")}
        assert told == {
            "Run": "run",
            "Trial": "run/r0/abc",
            "Candidate": "c0",
            "Overlay": content_hash(FACTORS),
            "Sample": "s0",
            "Replicate": "0",
        }
        assert headers["X-Ratchet-Seed"].isdecimal()

    async def test_names_that_headers_cannot_carry_are_encoded(self) -> None:
        async with json_endpoint(ok) as endpoint:
            await evaluated(run_for(target(endpoint.url), [Sample("ü\n1", {"question": "?"}, "x")]))
        assert endpoint.asked[0].headers["X-Ratchet-Sample"] == "%C3%BC%0A1"

    async def test_headers_and_the_path_are_filled_too(self) -> None:
        asked = await asked_by(
            path="/v1/{{input.question}}?top={{input.top}}", headers={"X-Model": "m-{{factors.temperature}}"}
        )
        assert asked.path == "/v1/Why%3F?top=3"
        assert asked.headers["X-Model"] == "m-0.5"

    async def test_a_sample_cannot_change_where_the_request_goes(self) -> None:
        async with json_endpoint(ok) as endpoint:
            samples = [Sample("s0", {"id": "../admin?x=1#y"}, "x"), Sample("s1", {"id": ".."}, "x")]
            run = run_for(target(f"{endpoint.origin}/items/{{{{input.id}}}}/answer"), samples)
            await evaluated(run)
        assert [asked.path for asked in endpoint.asked] == ["/items/..%2Fadmin%3Fx=1%23y/answer"]
        assert "would lead elsewhere" in ((await run.by_sample())["s1"].error or "")

    async def test_a_sample_cannot_add_a_header(self) -> None:
        async with json_endpoint(ok) as endpoint:
            samples = [Sample("s0", {"question": "a\r\nX-Evil: 1"}, "x")]
            run = run_for(target(endpoint.url, headers={"X-Question": "{{input.question}}"}), samples)
            await evaluated(run)
        assert endpoint.asked == []
        assert "line breaks" in ((await run.by_sample())["s0"].error or "")

    async def test_get_sends_no_body(self) -> None:
        async with json_endpoint(ok) as endpoint:
            url = f"{endpoint.origin}/search?q={{{{input.question}}}}&k=1"
            await evaluated(run_for(target(url, method="GET"), [Sample("s0", {"question": "a&k=2#b"}, "x")]))
        (asked,) = endpoint.asked
        assert (asked.method, asked.body, asked.path) == ("GET", None, "/search?q=a%26k%3D2%23b&k=1")

    async def test_a_sample_that_lacks_what_is_asked_for_fails_alone(self) -> None:
        async with json_endpoint(ok) as endpoint:
            run = run_for(target(endpoint.url, body={"q": "{{input.question}}"}), [*QUESTION, Sample("s1", {}, "x")])
            await evaluated(run)
        assert {name: outcome.status for name, outcome in (await run.by_sample()).items()} == {"s0": "answered", "s1": "failed"}
        assert (await run.by_sample())["s1"].error_class == "placeholder"


class TestAnswers:
    async def test_paths_say_where_everything_is(self) -> None:
        reply = {
            "choices": [{"text": "no"}, {"text": "yes"}],
            "usage": {"total": 120, "cost": 0.25, "ms": 17.5},
            "steps": ["a", "b"],
            "used": content_hash(FACTORS),
        }
        paths = {
            "output": "choices.1.text",
            "tokens": "usage.total",
            "cost": "usage.cost",
            "latency_ms": "usage.ms",
            "trace": "steps",
            "overlay_hash": "used",
        }
        outcome = await outcome_of(lambda _: web.json_response(reply), response=paths)
        assert (outcome.output, outcome.tokens, outcome.cost, outcome.latency_ms) == ("yes", 120, 0.25, 17.5)
        assert outcome.trace == ["a", "b"]

    async def test_without_paths_the_whole_response_is_the_answer(self) -> None:
        outcome = await outcome_of(ok)
        assert (outcome.output, outcome.tokens, outcome.cost) == ({"text": "because"}, 0, 0.0)
        assert outcome.latency_ms is not None and outcome.latency_ms > 0

    async def test_a_bill_that_is_missing_counts_as_nothing(self) -> None:
        paths = {"output": "text", "tokens": "usage.total", "cost": "cost"}
        outcome = await outcome_of(ok, response=paths)
        assert (outcome.output, outcome.tokens, outcome.cost) == ("because", 0, 0.0)

    @pytest.mark.parametrize("place", ["header", "body"])
    async def test_another_overlay_than_the_one_sent_never_scores(self, place: str) -> None:
        def answer(_: Asked) -> web.Response:
            other = "0" * 64
            headers = {"X-Ratchet-Overlay": other} if place == "header" else {}
            return web.json_response({"text": "x", "used": other, "tokens": 7}, headers=headers)

        paths = {"output": "text", "tokens": "tokens"} | ({"overlay_hash": "used"} if place == "body" else {})
        outcome = await outcome_of(answer, response=paths)
        assert (outcome.status, outcome.error_class, outcome.tokens) == ("failed", "other overlay", 7)

    async def test_the_overlay_that_was_sent_may_be_echoed(self) -> None:
        outcome = await outcome_of(
            lambda asked: web.json_response({"text": "x"}, headers={"X-Ratchet-Overlay": asked.headers["X-Ratchet-Overlay"]})
        )
        assert outcome.status == "answered"

    async def test_an_answer_without_the_echo_that_the_spec_demands_never_scores(self) -> None:
        silent = await outcome_of(ok, must_echo=True)
        assert (silent.status, silent.error_class, silent.echoed) == ("failed", "no echo", False)
        assert "target.must_echo" in (silent.error or "")
        echo = {"X-Ratchet-Overlay": content_hash(FACTORS)}
        told = await outcome_of(lambda _: web.json_response({"text": "x"}, headers=echo), must_echo=True)
        assert (told.status, told.echoed) == ("answered", True)
        assert not (await outcome_of(ok)).echoed

    async def test_an_error_in_the_answer_fails_the_sample_and_is_paid_for(self) -> None:
        paths = {"output": "text", "error": "error.message", "tokens": "tokens"}
        reply = {"error": {"message": "no such customer"}, "tokens": 9}
        outcome = await outcome_of(lambda _: web.json_response(reply), response=paths)
        assert (outcome.error, outcome.tokens) == ("target failed: no such customer", 9)

    @pytest.mark.parametrize(
        ("reply", "text"),
        [
            ({"answer": "x"}, 'the response has no text: {"answer": "x"}; if it never has, correct target.response.output'),
            ({"text": None}, "the response has no text"),
            ({"text": "x", "tokens": "many"}, "tokens='many'; give a whole number, or correct target.response.tokens"),
            ({"text": "x", "tokens": -1}, "tokens=-1"),
        ],
    )
    async def test_an_answer_that_is_none_is_the_candidates_fault(self, reply: Any, text: str) -> None:
        outcome = await outcome_of(lambda _: web.json_response(reply), response={"output": "text", "tokens": "tokens"})
        assert outcome.status == "failed"
        assert text in (outcome.error or "")


class TestFaults:
    @pytest.mark.parametrize("status", [408, 409, 423, 425, 429, 500, 502, 503, 504])
    async def test_what_passes_is_tried_again(self, status: int) -> None:
        def answer(_: Asked) -> web.Response:
            return ok(_) if len(endpoint.asked) > 2 else web.json_response({"detail": "later"}, status=status)

        async with json_endpoint(answer) as endpoint:
            run = run_for(target(endpoint.url))
            assert (await evaluated(run)).evaluated == 1
        assert len(endpoint.asked) == 3
        assert (await run.by_sample())["s0"].status == "answered"

    @pytest.mark.parametrize(
        ("answer", "kind"),
        [
            (lambda _: web.json_response({}, status=500), "http 500"),
            (lambda _: web.Response(text="<html>oops</html>", content_type="text/html"), "broken answer"),
        ],
    )
    async def test_what_stays_is_missing_and_counted_by_class(self, answer: Answering, kind: str) -> None:
        async with json_endpoint(answer) as endpoint:
            result = await evaluated(run_for(target(endpoint.url)))
        assert (result.missing, result.errors) == (1, {kind: 1})
        assert len(endpoint.asked) == QUICK.attempts

    @pytest.mark.parametrize("status", [400, 413, 415, 422])
    async def test_a_request_that_is_refused_is_a_failed_outcome(self, status: int) -> None:
        outcome = await outcome_of(lambda _: web.json_response({"detail": "temperature: too high"}, status=status))
        assert outcome.status == "failed"
        assert outcome.error_class == f"http {status}"
        assert "temperature: too high" in (outcome.error or "")

    @pytest.mark.parametrize("status", [401, 403, 404, 405, 410, 302])
    async def test_an_endpoint_that_refuses_for_good_ends_the_trial(self, status: int) -> None:
        async with json_endpoint(lambda _: web.json_response({}, status=status, headers={"Location": "/"})) as endpoint:
            error = await failure(run_for(target(endpoint.url)))
        assert (error.type, error.non_retryable) == (PERMANENT_TARGET_ERROR, True)
        assert endpoint.url in error.message and f"HTTP {status}" in error.message
        assert error.details[0] == {"errors": {f"http {status}": 1}}
        assert len(endpoint.asked) == 1

    async def test_one_that_takes_too_long_is_tried_again_and_then_the_candidates_fault(self) -> None:
        async def answer(_: Asked) -> web.Response:
            await asyncio.Event().wait()
            raise AssertionError

        async with json_endpoint(answer) as endpoint:
            run = run_for(target(endpoint.url), sample_timeout=timedelta(seconds=0.1))
            await evaluated(run)
        assert (await run.by_sample())["s0"].error_class == "timeout"
        assert len(endpoint.asked) == QUICK.slow_attempts

    async def test_an_endpoint_that_is_not_there_leaves_everything_missing(self) -> None:
        result = await evaluated(run_for(target("http://127.0.0.1:9/answer")), RATCHET_HTTP_URLS="http://127.0.0.1:9")
        assert (result.missing, result.errors) == (1, {"connection": 1})
        assert "http://127.0.0.1:9/answer cannot be reached" in (result.first_error or "")

    async def test_a_retry_after_is_waited_for(self) -> None:
        def answer(_: Asked) -> web.Response:
            busy = web.json_response({}, status=429, headers={"Retry-After": "0.3"})
            times.append(asyncio.get_running_loop().time())
            return busy if len(times) == 1 else ok(_)

        times: list[float] = []
        async with json_endpoint(answer) as endpoint:
            await evaluated(run_for(target(endpoint.url)))
        assert times[1] - times[0] >= 0.3


class TestTrust:
    async def test_without_auth_nothing_secret_is_sent(self) -> None:
        headers = (await asked_by({"RATCHET_HTTP_TOKEN": TOKEN, "RATCHET_HTTP_URLS": "ORIGIN"})).headers
        assert TOKEN not in str(headers)

    @pytest.mark.parametrize(
        ("auth", "header", "value"), [("bearer", "Authorization", f"Bearer {TOKEN}"), ("x-api-key", "X-API-Key", TOKEN)]
    )
    async def test_the_workers_token_goes_where_its_operator_says(self, auth: str, header: str, value: str) -> None:
        asked = await asked_by({"RATCHET_HTTP_TOKEN": TOKEN, "RATCHET_HTTP_URLS": "https://a.example, ORIGIN/x"}, auth=auth)
        assert asked.headers[header] == value

    async def test_and_nowhere_else_not_even_on_this_machine(self) -> None:
        async with json_endpoint(ok) as endpoint:
            error = await failure(run_for(target(endpoint.url, auth="bearer")), RATCHET_HTTP_TOKEN=TOKEN)
        assert error.type == PERMANENT_TARGET_ERROR
        assert "RATCHET_HTTP_URLS" in error.message
        assert endpoint.asked == []

    @pytest.mark.parametrize(
        "url",
        ["https://internal.example/x", "http://169.254.169.254/latest", "http://10.0.0.1:80/", "http://127.0.0.1:7373/v1"],
    )
    async def test_strangers_are_not_even_called(self, url: str) -> None:
        error = await failure(run_for(target(url)), RATCHET_HTTP_URLS="https://internal.example.evil, http://internal.example")
        assert "will not call it" in error.message

    async def test_a_token_that_is_missing_is_asked_for(self) -> None:
        error = await failure(run_for(target("https://a.example/x", auth="bearer")), RATCHET_HTTP_URLS="https://a.example")
        assert "RATCHET_HTTP_TOKEN is not set" in error.message

    async def test_an_endpoint_that_quotes_the_token_does_not_tell_it(self) -> None:
        async with json_endpoint(lambda asked: web.Response(text=asked.headers["Authorization"], status=401)) as endpoint:
            run = run_for(target(endpoint.url, auth="bearer"))
            error = await failure(run, RATCHET_HTTP_TOKEN=TOKEN, RATCHET_HTTP_URLS=endpoint.origin)
        assert "(hidden)" in error.message
        assert TOKEN not in error.message

    async def test_cookies_are_not_kept_from_one_sample_to_the_next(self) -> None:
        def answer(_: Asked) -> web.Response:
            response = ok(_)
            response.set_cookie("session", "1")
            return response

        async with json_endpoint(answer) as endpoint:
            samples = [Sample(f"s{n}", {"question": "?"}, "x") for n in range(3)]
            run = run_for(target(endpoint.url), samples)
            async with evaluation(run) as evaluating:
                await activity_environment().run(evaluating.evaluate_shard, run.shard(3, concurrent_samples=1))
        assert len(endpoint.asked) == 3
        assert not any("Cookie" in asked.headers for asked in endpoint.asked)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"url": "ftp://a/b"}, "url: is not the URL of an endpoint"),
    ({"url": "http://{{input.host}}/x"}, "url: is not the URL of an endpoint"),
    ({"url": "http://a:b@host/x"}, "url: carries credentials"),
    ({"url": "http://a/x#y"}, "url: has a fragment"),
    ({"url": "http:///x"}, "url: is not the URL of an endpoint"),
    ({"url": "http://a b/x"}, "url: is not the URL of an endpoint"),
    ({"headers": {"authorization": "Bearer x"}}, "is for secrets, which no spec holds; use auth"),
    ({"headers": {"Cookie": "x"}}, "is for secrets"),
    ({"headers": {"Host": "x"}}, "is set by Ratchet"),
    ({"headers": {"x-ratchet-run": "x"}}, "is set by Ratchet"),
    ({"headers": {"a b": "x"}}, "is no name for a header"),
    ({"headers": {"a": "x\ny"}}, "line breaks"),
    ({"method": "DELETE"}, "method: use one of"),
    ({"auth": "basic"}, "auth: use one of"),
    ({"response": {"outputs": "x"}}, "response.outputs: is not a known field"),
]


@pytest.mark.parametrize(("wrong", "text"), WRONG)
def test_a_target_that_makes_no_sense_is_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as raised:
        target(**{"url": "http://a/x", **wrong})
    assert text in "\n".join(explain(raised.value))
