"""What a worker lets a spec name: keys, origins, objects and task queues, on loopback as anywhere else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from activities.endpoints.chat_models import ChatModels
from activities.endpoints.gate import Gates
from activities.endpoints.operator_lists import (
    ACTIVITY_QUEUES,
    ALLOWED_FILE,
    DEFAULT_MODEL_URL,
    EVALUATION_QUEUES,
    HTTP_TOKEN,
    HTTP_URLS,
    MODEL_URLS,
    NO_KEY,
    OBJECTS,
    RUNNER_URLS,
    KeyMissing,
    NotListed,
    OperatorLists,
    named_by,
    note_allowed,
    origin_of,
)
from tests.support.http_endpoints import Asked, json_endpoint
from workflows.model.spec.request import OptimizationRequest

KEY = "sk-production"
OWN = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://api.example:443/v1"}


def test_a_neighbour_on_loopback_is_never_sent_the_key() -> None:
    lists = OperatorLists(OWN)
    for neighbour in ("http://127.0.0.1:9999/v1", "http://localhost:80/v1", "http://[::1]:1/v1", "http://127.8.8.8/v1"):
        assert lists.model_key(neighbour) == NO_KEY


def test_the_key_goes_to_the_origins_it_was_given_for_whatever_way_they_are_written() -> None:
    lists = OperatorLists({**OWN, MODEL_URLS: "http://127.0.0.1:4000, https://Openrouter.ai/"})
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
        OperatorLists(OWN).model_key(DEFAULT_MODEL_URL)
    assert OperatorLists({"OPENAI_API_KEY": KEY}).model_key(DEFAULT_MODEL_URL) == KEY
    with pytest.raises(KeyMissing, match="OPENAI_API_KEY"):
        OperatorLists({}).model_key(DEFAULT_MODEL_URL)


async def test_a_spec_cannot_have_the_key_sent_to_whoever_listens_on_this_machine() -> None:
    async with json_endpoint(_completion) as endpoint:
        models = ChatModels(Gates(), environment=OWN)
        answer = await models.ask(
            base_url=endpoint.origin,
            model="m",
            messages=[{"role": "user", "content": "?"}],
            parameters={},
            stream=False,
            timeout=10,
            prices={},
        )
        await models.close()
    assert answer.value == "yes"
    assert [asked.headers["Authorization"] for asked in endpoint.asked] == [f"Bearer {NO_KEY}"]


def _completion(_: Asked):  # type: ignore[no-untyped-def]
    from aiohttp import web

    return web.json_response({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]})


def test_loopback_is_no_place_that_targets_may_call_unless_it_is_listed(tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:7373/v1", "http://localhost:9901/quitquitquit", "http://[::1]/"):
        with pytest.raises(NotListed, match=HTTP_URLS):
            OperatorLists({}).refuse_http(url, with_token=False)
        with pytest.raises(NotListed, match=RUNNER_URLS):
            OperatorLists({}).refuse_runner(url)
    OperatorLists({HTTP_URLS: "http://127.0.0.1:7373"}).refuse_http("http://127.0.0.1:7373/v1", with_token=True)


def test_what_the_command_line_allowed_is_called_without_the_token(tmp_path: Path) -> None:
    file = tmp_path / "allowed.json"
    note_allowed(file, {HTTP_URLS: ["http://127.0.0.1:8000"], RUNNER_URLS: ["http://127.0.0.1:8001"]})
    note_allowed(file, {HTTP_URLS: ["http://127.0.0.1:8002"]})
    lists = OperatorLists({ALLOWED_FILE: str(file), HTTP_TOKEN: "secret", "RATCHET_RUNNER_TOKEN": "secret"})
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
        OperatorLists({ALLOWED_FILE: str(file)}).refuse_http("http://a/x", with_token=False)


def test_objects_lie_under_a_prefix_or_are_not_read() -> None:
    lists = OperatorLists({OBJECTS: "s3://data/team/, s3://public"})
    for allowed in ("s3://data/team/x.jsonl", "s3://data/team/a/b.csv", "s3://public/x.jsonl"):
        lists.refuse_object(allowed)
    for other in ("s3://data/teams/x", "s3://data/x", "s3://publics/x", "s3://secrets/credentials", "s3://data/tea"):
        with pytest.raises(NotListed, match=OBJECTS):
            lists.refuse_object(other)
    for empty in ("", "s3://", "s3:///", "*", "/"):
        with pytest.raises(NotListed):
            OperatorLists({OBJECTS: empty}).refuse_object("s3://data/x")


def test_activities_of_others_are_called_on_listed_task_queues_only() -> None:
    lists = OperatorLists({ACTIVITY_QUEUES: "tickets, agents-*"})
    for allowed in ("tickets", "agents-", "agents-7"):
        lists.refuse_activity_queue(allowed)
    for other in ("payments", "tickets-2", "agents"):
        with pytest.raises(NotListed, match=ACTIVITY_QUEUES):
            lists.refuse_activity_queue(other)


def test_a_run_is_evaluated_by_its_own_worker_by_plug_ins_and_by_listed_ones_only() -> None:
    lists = OperatorLists({EVALUATION_QUEUES: "gpu"})
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
    base = {
        "name": "n",
        "configuration": {"x": {"value": 1, "change": "structured", "type": "integer", "min": 0, "max": 9}},
        "dataset": {"items": [{"input": 1}]},
        "scorers": [{"kind": "latency", "name": "fast", "at_most": 1}],
        "objective": {"metric": "fast"},
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
    }

    def named(target: dict[str, str], **more: object) -> dict[str, list[str]]:
        return named_by(OptimizationRequest.model_validate({**base, "target": target, **more}))

    assert named({"kind": "http", "url": "http://127.0.0.1:80/x"}) == {HTTP_URLS: ["http://127.0.0.1"]}
    assert named({"kind": "external", "url": "http://127.0.0.1:8900"}) == {RUNNER_URLS: ["http://127.0.0.1:8900"]}
    elsewhere = named(
        {"kind": "activity", "activity": "a", "task_queue": "tickets"}, execution={"evaluation_task_queue": "gpu"}
    )
    assert elsewhere == {ACTIVITY_QUEUES: ["tickets"], EVALUATION_QUEUES: ["gpu"]}
