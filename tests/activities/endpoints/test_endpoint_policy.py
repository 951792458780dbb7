"""Every endpoint is dealt with alike: what may be called and sent a key, what a status means, how long a Retry-After is."""

from __future__ import annotations

import email.utils
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.chat_protocol import ChatAnswer
from activities.endpoints.endpoint_policy import (
    NO_KEY,
    KeyMissing,
    NotListed,
    OperatorLists,
    fault_of_connection,
    fault_of_status,
    named_by,
    note_allowed,
    origin_of,
    retry_after,
)
from activities.endpoints.gate import Gate, Gates
from activities.endpoints.retry_policy import Patience
from activities.endpoints.runner import Runners
from activities.settings import (
    ACTIVITY_QUEUES,
    ALLOWED_FILE,
    DEFAULT_MODEL_URL,
    EVALUATION_QUEUES,
    HTTP_TOKEN,
    HTTP_URLS,
    MODEL_URLS,
    OBJECTS,
    RUNNER_URLS,
)
from activities.targets.faults import CandidateFault, Fault, Refused, Throttled, Unreachable
from activities.targets.http import HttpAnswers, HttpEndpoints
from clients.checks.endpoints import check_endpoints
from clients.settings import operator_settings
from ratchet import ExperimentContext, Sample
from tests.support.allowed import lists_of
from tests.support.http_endpoints import Asked, Endpoint, json_endpoint
from workflows.model.spec.request import OptimizationRequest
from workflows.model.spec.targets.http import HttpTarget

KEY = "sk-production"
OWN = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://api.example:443/v1"}
LONG_AGO = "Wed, 21 Oct 2015 07:28:00 GMT"
QUICK = Patience(seconds=5.0, attempts=2, first_delay=0.01)
BASE = {
    "name": "n",
    "configuration": {"x": {"value": 1, "change": "structured", "type": "integer", "min": 0, "max": 9}},
    "dataset": {"items": [{"input": 1}]},
    "scorers": [{"kind": "latency", "name": "fast", "at_most": 1}],
    "objective": {"metric": "fast"},
    "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
}


async def asked_with(models: ChatModels, endpoint: Endpoint) -> ChatAnswer:
    return await models.ask(
        base_url=endpoint.origin,
        model="m",
        messages=[{"role": "user", "content": "?"}],
        parameters={},
        stream=False,
        timeout=10,
        prices={},
        context=CallContext(),
    )


async def asked_as_chat(gates: Gates, endpoint: Endpoint) -> Gate:
    models = ChatModels(gates, patience=QUICK)
    await asked_with(models, endpoint)
    await models.close()
    return gates.at(endpoint.origin, "m")


async def asked_over_http(gates: Gates, endpoint: Endpoint) -> Gate:
    endpoints = HttpEndpoints(gates, QUICK, lists_of({HTTP_URLS: endpoint.origin}))
    target = HttpAnswers(HttpTarget(kind="http", url=endpoint.url), endpoints, timeout=10)
    experiment = ExperimentContext(id="t", name="n", overrides_tag="tag")
    await target.answer({}, Sample("s", 1), experiment, CallContext())
    await endpoints.close()
    return gates.at(endpoint.origin, endpoint.url)


async def asked_as_runner(gates: Gates, endpoint: Endpoint) -> Gate:
    runners = Runners(gates, lists_of({RUNNER_URLS: endpoint.origin}))
    await runners.status(endpoint.origin, "e", 5.0)
    await runners.close()
    return gates.at(endpoint.origin, "runner")


def test_a_neighbour_on_loopback_is_never_sent_the_key() -> None:
    lists = lists_of(OWN)
    for neighbour in ("http://127.0.0.1:9999/v1", "http://localhost:80/v1", "http://[::1]:1/v1", "http://127.8.8.8/v1"):
        assert lists.model_key(neighbour) == NO_KEY


def test_the_key_goes_to_the_origins_it_was_given_for_whatever_way_they_are_written() -> None:
    lists = lists_of({**OWN, MODEL_URLS: "http://127.0.0.1:4000, https://Openrouter.ai/"})
    for given in (
        "https://api.example/v2",
        "https://API.example:443",
        "http://127.0.0.1:4000/v1",
        "https://openrouter.ai:443/x",
    ):
        assert lists.model_key(given) == KEY
    for other in ("http://api.example/v1", "https://api.example:8443/v1", "https://openrouter.ai.evil.example", "https://@/"):
        with pytest.raises(NotListed, match=MODEL_URLS):
            lists.model_key(other)


def test_a_key_for_another_base_url_is_not_sent_to_the_default_one() -> None:
    with pytest.raises(NotListed):
        lists_of(OWN).model_key(DEFAULT_MODEL_URL)
    assert lists_of({"OPENAI_API_KEY": KEY}).model_key(DEFAULT_MODEL_URL) == KEY
    with pytest.raises(KeyMissing, match="OPENAI_API_KEY"):
        lists_of({}).model_key(DEFAULT_MODEL_URL)


async def test_a_spec_cannot_have_the_key_sent_to_whoever_listens_on_this_machine() -> None:
    async with json_endpoint(_completion) as endpoint:
        models = ChatModels(Gates(), lists_of(OWN))
        answer = await asked_with(models, endpoint)
        await models.close()
    assert answer.value == "yes"
    assert [asked.headers["Authorization"] for asked in endpoint.asked] == [f"Bearer {NO_KEY}"]


def _completion(_: Asked) -> web.Response:
    return web.json_response({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]})


def test_loopback_is_no_place_that_targets_may_call_unless_it_is_listed(tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:7373/v1", "http://localhost:9901/quitquitquit", "http://[::1]/"):
        with pytest.raises(NotListed, match=HTTP_URLS):
            lists_of({}).refuse_http(url, with_token=False)
        with pytest.raises(NotListed, match=RUNNER_URLS):
            lists_of({}).refuse_runner(url)
    lists_of({HTTP_URLS: "http://127.0.0.1:7373"}).refuse_http("http://127.0.0.1:7373/v1", with_token=True)


def test_what_the_command_line_allowed_is_called_without_the_token(tmp_path: Path) -> None:
    file = tmp_path / "allowed.json"
    note_allowed(file, {HTTP_URLS: ["http://127.0.0.1:8000"], RUNNER_URLS: ["http://127.0.0.1:8001"]})
    note_allowed(file, {HTTP_URLS: ["http://127.0.0.1:8002"]})
    lists = lists_of({ALLOWED_FILE: str(file), HTTP_TOKEN: "secret", "RATCHET_RUNNER_TOKEN": "secret"})
    for port in (8000, 8002):
        lists.refuse_http(f"http://127.0.0.1:{port}/x", with_token=False)
        with pytest.raises(NotListed):
            lists.http_token(f"http://127.0.0.1:{port}/x")
    assert lists.runner_token("http://127.0.0.1:8001/x") is None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "[", "[]", '{"RATCHET_HTTP_URLS": "http://a"}', '{"RATCHET_HTTP_URLS": [1]}', "\x00"])
def test_a_file_that_was_meddled_with_allows_nothing(tmp_path: Path, content: str) -> None:
    file = tmp_path / "allowed.json"
    file.write_text(content)
    with pytest.raises(NotListed):
        lists_of({ALLOWED_FILE: str(file)}).refuse_http("http://a/x", with_token=False)


def test_objects_lie_under_a_prefix_or_are_not_read() -> None:
    lists = lists_of({OBJECTS: "s3://data/team/, s3://public"})
    for allowed in ("s3://data/team/x.jsonl", "s3://data/team/a/b.csv", "s3://public/x.jsonl"):
        lists.refuse_object(allowed)
    for other in ("s3://data/teams/x", "s3://data/x", "s3://publics/x", "s3://secrets/credentials", "s3://data/tea"):
        with pytest.raises(NotListed, match=OBJECTS):
            lists.refuse_object(other)
    for empty in ("", "s3://", "s3:///", "*", "/"):
        with pytest.raises(NotListed):
            lists_of({OBJECTS: empty}).refuse_object("s3://data/x")


def test_activities_of_others_are_called_on_listed_task_queues_only() -> None:
    lists = lists_of({ACTIVITY_QUEUES: "tickets, agents-*"})
    for allowed in ("tickets", "agents-", "agents-7"):
        lists.refuse_activity_queue(allowed)
    for other in ("payments", "tickets-2", "agents"):
        with pytest.raises(NotListed, match=ACTIVITY_QUEUES):
            lists.refuse_activity_queue(other)


def test_a_run_is_evaluated_by_its_own_worker_by_plug_ins_and_by_listed_ones_only() -> None:
    lists = lists_of({EVALUATION_QUEUES: "gpu"})
    for allowed in ("gpu", "mine", "optimization-evaluation", "optimization-evaluation-0123456789ab"):
        lists.refuse_evaluation_queue(allowed, own="mine", task_queue="optimization")
    for other in ("gpu2", "other-evaluation", "optimization-evaluation-0123456789AB", "optimization-evaluation-x"):
        with pytest.raises(NotListed, match=EVALUATION_QUEUES):
            lists.refuse_evaluation_queue(other, own="mine", task_queue="optimization")


def test_an_origin_is_one_however_it_is_written() -> None:
    same = {origin_of(url) for url in ("https://A.example", "https://a.example:443/x", " https://a.example./?q")}
    assert same == {"https://a.example"}
    assert origin_of("http://[::1]:80/x") == "http://[::1]"
    for none in ("", "a.example", "file:///etc/passwd", "http://", "http://a:b", "http://[", "s3://bucket"):
        assert origin_of(none) == ""


def test_what_a_spec_names_is_what_its_own_command_allows() -> None:
    def named(target: dict[str, str], **more: object) -> dict[str, list[str]]:
        return named_by(OptimizationRequest.model_validate({**BASE, "target": target, **more}))

    assert named({"kind": "http", "url": "http://127.0.0.1:80/x"}) == {HTTP_URLS: ["http://127.0.0.1"]}
    assert named({"kind": "external", "url": "http://127.0.0.1:8900"}) == {RUNNER_URLS: ["http://127.0.0.1:8900"]}
    elsewhere = named(
        {"kind": "activity", "activity": "a", "task_queue": "tickets"}, execution={"evaluation_task_queue": "gpu"}
    )
    assert elsewhere == {ACTIVITY_QUEUES: ["tickets"], EVALUATION_QUEUES: ["gpu"]}


class TestStatuses:
    @pytest.mark.parametrize(
        ("meaning", "statuses"),
        [
            (Throttled, (429, 503, 529)),
            (Unreachable, (408, 409, 423, 425, 500, 502, 504, 507, 520, 599)),
            (Refused, (300, 301, 307, 304, 401, 402, 403, 404, 405, 407, 410, 501)),
            (CandidateFault, (400, 406, 413, 414, 415, 422, 431, 451)),
        ],
    )
    def test_a_status_has_one_meaning_and_is_never_billed(self, meaning: type[Fault], statuses: tuple[int, ...]) -> None:
        for status in statuses:
            fault = fault_of_status(status, "said", {}, place="there", candidate="the endpoint")
            assert (type(fault), fault.kind, fault.billed) == (meaning, f"http {status}", "no")
            assert f"HTTP {status}" in str(fault)

    def test_where_no_candidate_has_a_part_what_is_wrong_with_the_request_is_wrong_for_good(self) -> None:
        assert type(fault_of_status(422, "said", {}, place="runner")) is Refused

    @pytest.mark.parametrize("client", [asked_as_chat, asked_over_http, asked_as_runner])
    @pytest.mark.parametrize("status", [429, 503, 529])
    @pytest.mark.parametrize("headers", [{"retry-after-ms": "20"}, {"Retry-After": "0.02"}, {"Retry-After": LONG_AGO}])
    async def test_every_client_goes_slower_and_asks_again(
        self, client: Callable[[Gates, Endpoint], Awaitable[Gate]], status: int, headers: dict[str, str]
    ) -> None:
        def answer(_: Asked) -> web.Response:
            if len(endpoint.asked) == 1:
                return web.json_response({}, status=status, headers=headers)
            return _completion(_)

        async with json_endpoint(answer) as endpoint:
            gate = await client(Gates(), endpoint)
        assert len(endpoint.asked) == 2
        assert gate.rate is not None

    def test_only_a_call_that_was_never_sent_is_certainly_not_billed(self) -> None:
        wrapped = RuntimeError("wrapped")
        wrapped.__cause__ = ConnectionRefusedError("nobody listens")
        assert fault_of_connection(wrapped, place="there").billed == "no"
        assert fault_of_connection(ConnectionResetError("reset"), place="there").billed == "unknown"


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ({"retry-after": "3"}, 3.0),
            ({"retry-after": "0.25"}, 0.25),
            ({"retry-after-ms": "250"}, 0.25),
            ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
            ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
            ({"retry-after": LONG_AGO}, 0.0),
            ({"retry-after": "86400"}, 3600.0),
            ({"retry-after": "Fri, 31 Dec 9998 23:59:59 GMT"}, 3600.0),
            ({"retry-after": "inf"}, 3600.0),
            ({"retry-after": "-1"}, None),
            ({"retry-after": "nan"}, None),
            ({"retry-after": "soon"}, None),
            ({"retry-after": "Wed, 99 Foo 2026 25:61:61 GMT"}, None),
            ({}, None),
        ],
    )
    def test_it_is_read_in_every_form(self, headers: dict[str, str], seconds: float | None) -> None:
        assert retry_after(headers) == seconds

    def test_a_date_is_told_from_now(self) -> None:
        seconds = retry_after({"retry-after": email.utils.formatdate(time.time() + 1800, usegmt=True)})
        assert seconds is not None
        assert 1200 < seconds <= 1800


@pytest.mark.parametrize("listed", ["https://models.invalid", "https://Models.invalid:443/", " https://models.invalid./v2"])
@pytest.mark.parametrize("named", ["https://models.invalid/v1", "https://models.invalid:443/v1"])
async def test_the_check_and_the_worker_know_the_same_origins(listed: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv(MODEL_URLS, listed)
    assert OperatorLists(operator_settings()).model_key(named) == KEY
    target = {"kind": "chat", "model": "m", "base_url": named, "messages": [{"role": "user", "content": "{{input}}"}]}
    [problem] = await check_endpoints(OptimizationRequest.model_validate({**BASE, "target": target}))
    assert "cannot be reached" in problem.message
