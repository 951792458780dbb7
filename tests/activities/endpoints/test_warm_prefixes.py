"""The first of many requests that begin alike goes ahead, and tells the provider what to keep."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.endpoint_policy import DEFAULT_URLS, OPENAI, OperatorLists
from activities.endpoints.gate import Gates
from activities.endpoints.retry_policy import Patience
from activities.endpoints.warm_prefixes import LIFETIME_SECONDS, WarmPrefixes
from activities.preparing.placed_models import placed_models
from activities.targets.faults import Unreachable
from clients.checks.costs.estimate import Estimate, estimate
from clients.checks.findings import Checked
from tests.support.allowed import lists_of
from tests.support.anthropic_endpoint import AnthropicEndpoint
from tests.support.bedrock_endpoint import CREDENTIALS, REGION, BedrockEndpoint
from tests.support.gemini_endpoint import GeminiEndpoint
from tests.support.model_endpoints import ModelEndpoint, OpenAiEndpoint, served
from tests.support.spec_building import request
from workflows.model.spec.targets.chat import ChatTarget
from workflows.rules.overlay import Overlay
from workflows.rules.spec.shared_beginnings import shared_messages

LONG = "Be kind. " * 600


class Crowd:
    """Answers in a protocol's words: the first who asks, once it is opened; all others at once."""

    def __init__(self, protocol: type[ModelEndpoint] = AnthropicEndpoint, *, fails_first: bool = False) -> None:
        self._said = protocol().whole("yes", 9, 3)
        self.opened = asyncio.Event()
        self.asked: list[dict[str, Any]] = []
        self._fails_first = fails_first

    async def answer(self, body: dict[str, Any]) -> web.StreamResponse:
        self.asked.append(body)
        if len(self.asked) == 1:
            await self.opened.wait()
            if self._fails_first:
                return web.json_response({}, status=500)
        return web.json_response(self._said)


async def ask(models: ChatModels, model: str, said: str, system: str = LONG, tools: Any = None) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": said}]
    answer = await models.ask(
        base_url=None,
        model=model,
        messages=messages,
        parameters={} if tools is None else {"tools": tools},
        stream=False,
        timeout=5.0,
        prices={},
        context=CallContext(),
        shared=lambda: 1,
    )
    return str(answer.value)


def models_of(endpoint: ModelEndpoint) -> ChatModels:
    told = {"ANTHROPIC_BASE_URL": endpoint.url, "OPENAI_BASE_URL": f"{endpoint.url}/v1", "GOOGLE_GEMINI_BASE_URL": endpoint.url}
    told |= {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": endpoint.url, "AWS_REGION": REGION}
    return ChatModels(Gates(), lists_of(told), patience=Patience(seconds=-1.0, attempts=1))


async def test_the_others_follow_when_the_first_is_answered_and_each_names_what_is_kept() -> None:
    crowd = Crowd()
    async with served(AnthropicEndpoint(answering=crowd.answer)) as endpoint:
        models = models_of(endpoint)
        asking = [asyncio.create_task(ask(models, "anthropic/m", f"{n}")) for n in range(6)]
        while not crowd.asked:
            await asyncio.sleep(0)
        assert await ask(models, "anthropic/m", "short", system="Be kind.") == "yes", "who shares too little waits for nobody"
        assert len(crowd.asked) == 2
        crowd.opened.set()
        assert await asyncio.gather(*asking) == ["yes"] * 6
        await models.close()
    kept = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    assert [body["system"] for body in crowd.asked].count(kept) == 6
    assert [body["system"] for body in crowd.asked].count("Be kind.") == 1


@pytest.mark.parametrize(("protocol", "model"), [(OpenAiEndpoint, "m"), (GeminiEndpoint, "google/m")])
async def test_so_they_do_where_a_provider_keeps_by_itself(
    protocol: type[ModelEndpoint], model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = Crowd(protocol)
    async with served(protocol(answering=crowd.answer)) as endpoint:
        monkeypatch.setitem(DEFAULT_URLS, OPENAI, f"{endpoint.url}/v1")
        models = models_of(endpoint)
        asking = [asyncio.create_task(ask(models, model, f"{n}")) for n in range(6)]
        while not crowd.asked:
            await asyncio.sleep(0)
        assert await ask(models, model, "short", system="Be kind.") == "yes", "who shares too little waits for nobody"
        assert len(crowd.asked) == 2
        crowd.opened.set()
        assert await asyncio.gather(*asking) == ["yes"] * 6
        await models.close()
    assert "cache_control" not in str(crowd.asked)


async def test_who_only_speaks_openais_protocol_is_asked_at_once() -> None:
    crowd = Crowd(OpenAiEndpoint)
    async with served(OpenAiEndpoint(answering=crowd.answer)) as endpoint:
        models = models_of(endpoint)
        first = asyncio.create_task(ask(models, "m", "first"))
        while not crowd.asked:
            await asyncio.sleep(0)
        assert await ask(models, "m", "second") == "yes"
        crowd.opened.set()
        assert await first == "yes"
        await models.close()


@pytest.mark.parametrize(("description", "is_kept"), [(LONG, True), ("Looks.", False)])
async def test_tools_count_to_what_is_long_enough_to_be_kept(description: str, is_kept: bool) -> None:
    async with served(AnthropicEndpoint(named={"m": "simulated-echo"})) as endpoint:
        models = models_of(endpoint)
        tools = [{"type": "function", "function": {"name": "look", "description": description}}]
        assert await ask(models, "anthropic/m", "one", system="Be kind.", tools=tools) == "one"
        await models.close()
    kept = [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
    assert endpoint.bodies[0]["system"] == (kept if is_kept else "Be kind.")


async def test_one_that_fails_lets_the_others_go() -> None:
    crowd = Crowd(fails_first=True)
    async with served(AnthropicEndpoint(answering=crowd.answer)) as endpoint:
        models = models_of(endpoint)
        first = asyncio.create_task(ask(models, "anthropic/m", "first"))
        while not crowd.asked:
            await asyncio.sleep(0)
        second = asyncio.create_task(ask(models, "anthropic/m", "second"))
        crowd.opened.set()
        with pytest.raises(Unreachable):
            await first
        assert await second == "yes"
        await models.close()


async def test_a_provider_that_keeps_by_itself_is_told_nothing() -> None:
    async with served(OpenAiEndpoint()) as endpoint:
        models = models_of(endpoint)
        assert await ask(models, "simulated-echo", "one") == "one"
        await models.close()
    assert endpoint.bodies[0]["messages"][0] == {"role": "system", "content": LONG}


@pytest.mark.parametrize(
    ("model", "is_told"),
    [
        ("eu.anthropic.claude-opus-4-1-v1:0", True),
        ("amazon.nova-pro-v1:0", True),
        ("anthropic.claude-3-haiku-v1:0", False),
        ("meta.llama4-v1:0", False),
    ],
)
async def test_bedrock_is_told_where_its_model_can_be(model: str, is_told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    async with served(BedrockEndpoint(named={model: "simulated-echo"})) as endpoint:
        models = models_of(endpoint)
        assert await ask(models, f"bedrock/{model}", "one") == "one"
        await models.close()
    mark = [{"cachePoint": {"type": "default"}}] if is_told else []
    assert endpoint.bodies[0]["system"] == [{"text": LONG}, *mark]


async def test_all_of_a_conversation_that_goes_on_is_kept() -> None:
    async with served(AnthropicEndpoint()) as endpoint:
        models = models_of(endpoint)
        given: dict[str, Any] = {"base_url": None, "parameters": {}, "stream": False, "timeout": 5.0, "prices": {}}
        talk = [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": LONG},
            {"role": "user", "content": "And?"},
        ]
        await models.ask(model="anthropic/simulated-echo", messages=talk, context=CallContext(), goes_on=True, **given)
        await models.close()
    *before, last = endpoint.bodies[0]["messages"]
    assert last["content"] == [{"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}}]
    assert "cache_control" not in str(before)


async def test_a_beginning_grows_cold_and_one_that_takes_long_is_not_waited_for() -> None:
    now = 0.0
    prefixes = WarmPrefixes(clock=lambda: now, longest_wait=0.0)
    order: list[str] = []
    async with prefixes.asking("a"), prefixes.asking("a"):
        order.append("both")
    patient = WarmPrefixes(clock=lambda: now)
    async with patient.asking("a"):
        order.append("first")

    async def follow() -> None:
        async with patient.asking("a"):
            order.append("follows")

    now = LIFETIME_SECONDS + 1
    async with patient.asking("a"):  # goes ahead again
        following = asyncio.create_task(follow())
        await asyncio.sleep(0)
        order.append("again")
    await following
    assert order == ["both", "first", "again", "follows"]


@pytest.mark.parametrize(
    ("contents", "count"),
    [
        (["{{factors.rules}}", "{{input.q}}"], 1),
        (["Be kind.", "{{factors.rules}}", "{{factors.asks}}"], 2),
        (["{{factors.asks}}", "Be kind."], 0),
        (["Be kind."], 1),
    ],
)
def test_what_all_samples_share_is_what_comes_before_the_first_that_shows_one(contents: list[str], count: int) -> None:
    configuration = {"rules": "Be short.", "asks": "What of {{input.q}}?"}
    target = ChatTarget.model_validate({"kind": "chat", "messages": [{"role": "user", "content": text} for text in contents]})
    assert shared_messages(target.requests[0], Overlay("", configuration)) == count


PRICE = {"input": 10, "output": 0, "cached_input": 1}


def test_the_estimate_expects_them_from_the_cache() -> None:
    def expected(system: str, scorers: Any = None, target: Any = None, **changes: Any) -> Estimate:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": "{{input.q}}"}]
        asked = request(
            target={"kind": "chat", "model": changes.pop("model", "anthropic/m"), "messages": messages, **(target or {})},
            prices={"anthropic/m": PRICE | changes.pop("price", {}), "other": {"input": 1, "output": 0}},
            dataset={"items": [{"input": {"q": str(n)}} for n in range(10)], "splits": "none"},
            optimizer="none",
            stop={},
            **({} if scorers is None else {"scorers": scorers, "objective": "tone"}),
            **changes,
        )
        in_batches = placed_models(asked, OperatorLists())
        costs = estimate(Checked(Path("spec.yaml"), request=asked, splits={"all": 10}, in_batches=in_batches))
        assert costs.cost is not None and costs.expected_cost is not None and costs.cost > costs.expected_cost
        return costs

    kept, parted = expected(LONG), expected(LONG[:4000] + "{{input.q}}" + LONG[4000:])
    assert kept.expected_cost is not None and parted.expected_cost is not None
    assert kept.expected_cost < 0.5 * parted.expected_cost
    assert kept.calls == 10
    assert kept.expected_cached_tokens == len(LONG) // 4 * 9 > 0 == parted.expected_cached_tokens, "the first writes it"
    assert kept.expected_saving == pytest.approx(kept.expected_cached_tokens * 9 / 1e6)
    tool = {"kind": "http", "name": "look", "url": "http://127.0.0.1:1", "parameters": {"type": "object", "title": LONG}}
    agent = expected("Be kind.", target={"kind": "agent", "tools": [tool]})
    assert agent.expected_cached_tokens >= len(LONG) // 4 * ((agent.calls or 0) - 1) > 0 and agent.expected_saving > 0
    assert expected("Be kind.", target={"parameters": {"tools": [tool]}}).expected_cached_tokens >= len(LONG) // 4
    differs = expected("Be kind.", target={"kind": "agent", "tools": [{**tool, "description": "{{input.q}}"}]})
    assert differs.expected_cached_tokens == 0 and differs.tokens is not None and agent.tokens is not None
    assert agent.tokens > (expected("Be kind.", target={"kind": "agent", "tools": []}).tokens or 0) + len(LONG)
    tone = [{"kind": "rubric", "name": "tone", "model": "anthropic/m", "rubric": LONG}]
    judged = expected("Be kind.", tone)
    assert judged.expected_cached_tokens >= len(LONG) // 4 and judged.expected_saving > 0

    dearly_written = expected(LONG, price={"cache_write": 20})
    assert dearly_written.expected_saving == pytest.approx(kept.expected_saving - len(LONG) // 4 * 10 / 1e6)
    assert dearly_written.expected_cost == pytest.approx(kept.expected_cost + len(LONG) // 4 * 10 / 1e6), "and nothing else is"
    named = {"model": {"value": "other", "change": "structured", "type": "choice", "choices": ["other", "anthropic/m"]}}
    of_factor = expected(LONG, model="{{factors.model}}", configuration=named)
    assert of_factor.expected_saving == pytest.approx(kept.expected_saving), "the dearest that it may be"

    def saved(mode: str, *, judges: bool) -> float:
        return expected(LONG, tone, execution={"mode": mode, "batches": {"judges": judges}}).expected_saving

    assert saved("batch", judges=True) == saved("auto", judges=True) == 0.0, "requests in batches are not marked"
    assert saved("batch", judges=False) == judged.expected_saving > 0
