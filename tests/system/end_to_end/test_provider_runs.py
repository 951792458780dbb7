"""One spec runs unchanged on every provider's protocol: same scores, and what each endpoint counted is what was spent."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from temporalio.client import WorkflowFailureError

from activities.settings import MODEL_URLS, OperatorSettings
from clients.reports.figures import figures
from clients.reports.load import facts_of
from ratchet._environment import settings_from
from store.read.reader import StoreReader
from tests.support import anthropic_endpoint, bedrock_endpoint, gemini_endpoint
from tests.support.allowed import FILE
from tests.support.anthropic_endpoint import AnthropicEndpoint
from tests.support.bedrock_endpoint import CREDENTIALS, REGION, BedrockEndpoint
from tests.support.engines import Engines
from tests.support.gemini_endpoint import GeminiEndpoint
from tests.support.http_endpoints import Asked, json_endpoint
from tests.support.impatient_worker import impatient_worker
from tests.support.model_endpoints import CACHED, FAULTS, MIXED, ModelEndpoint, OpenAiEndpoint, served

pytestmark = pytest.mark.slow

PROTOCOLS: dict[str, Callable[..., ModelEndpoint]] = {
    "openai": OpenAiEndpoint,
    "anthropic": AnthropicEndpoint,
    "google": GeminiEndpoint,
    "bedrock": BedrockEndpoint,
}
SEALS = {"anthropic": anthropic_endpoint.SEAL, "google": gemini_endpoint.SEAL, "bedrock": bedrock_endpoint.SEAL}
ECHO, JUDGE, REFLECTOR, AGENT = "simulated-echo", "simulated-judge", "simulated-reflector", "simulated-agent"
_numbers = itertools.count(1)
PRICE = {"input": 10, "output": 100, "cached_input": 1}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let boto3 find these."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def spec(provider: str, queue: str, name: str) -> dict[str, Any]:
    """Its target, its judge and its proposer are models of one provider; nothing else tells it which."""
    echo, judge, reflector = (f"{provider}/{model}" for model in (ECHO, JUDGE, REFLECTOR))
    messages = [{"role": "system", "content": "{{factors.prompt}}"}, {"role": "user", "content": "{{input.say}}"}]
    sayings = [f"{'sorry' if n % 3 else 'hello'} number {n}" for n in range(15)]
    proposer = {"kind": "model", "model": reflector, "parameters": {"max_tokens": 500}}
    return {
        "name": name,
        "configuration": {"prompt": {"value": "Repeat.", "change": "text", "max_length": 400}, "max_tokens": 100},
        "target": {"kind": "chat", "messages": messages, "model": echo},
        "dataset": {"items": [{"input": {"say": said}} for said in sayings], "splits": "none"},
        "scorers": [{"kind": "rubric", "name": "tone", "rubric": 'It says "sorry".', "model": judge}],
        "objective": "tone",
        "optimizer": {"name": "refine", "proposer": proposer},
        "stop": {"max_rounds": 1},
        "budget": {"cost": 100},
        "execution": {"evaluation_task_queue": queue, "sample_timeout": "2s"},
        "prices": dict.fromkeys((echo, judge, reflector), PRICE),
    }


@asynccontextmanager
async def asked_of(engines: Engines, provider: str, fault: str | None, **more: Any) -> AsyncIterator[tuple[ModelEndpoint, str]]:
    """An endpoint of this provider, and the task queue of a worker that knows it as the provider's own."""
    async with served(PROTOCOLS[provider](fault=fault, **more)) as endpoint:
        told = {
            "RATCHET_ALLOWED_FILE": str(FILE),
            "OPENAI_BASE_URL": f"{endpoint.url}/v1",
            MODEL_URLS: f"openai={endpoint.url}",
            "ANTHROPIC_BASE_URL": endpoint.url,
            "GOOGLE_GEMINI_BASE_URL": endpoint.url,
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": endpoint.url,
            "AWS_REGION": REGION,
        }
        queue = f"asks-{provider}-{fault}"
        async with impatient_worker(engines, queue, settings_from(OperatorSettings, told)):
            yield endpoint, queue


async def scores_and_bill(engines: Engines, provider: str, fault: str | None, mode: str = "direct") -> list[Any]:
    """What a run found, after its spend was compared with what its endpoint counted."""
    async with asked_of(engines, provider, fault) as (endpoint, queue):
        run_id = f"on-{provider}-{fault}-{next(_numbers)}"
        asked = spec(provider, queue, run_id)
        asked["execution"]["mode"] = mode
        result = await engines.run(asked, run_id=run_id)
    bill, spend = endpoint.bill, result["spend"]
    assert bill.answers > 0
    assert spend["tokens"] == bill.read + bill.written
    cached = CACHED * bill.answers
    assert spend["cost"] == pytest.approx(((bill.read - cached) * 10 + cached * 1 + bill.written * 100) / 1e6, rel=1e-9)
    report = await StoreReader(engines.database).runs.report(run_id)
    assert report is not None
    facts = facts_of(report)
    assert (facts.cached_tokens, sum(trial.cached_tokens for trial in report.trials) > 0) == (cached, True)
    [spent] = [text for name, text in figures(facts) if name == "Spent"]
    assert f" {spend['tokens']:,} tokens ({cached:,} from a cache), " in spent
    if fault is not None:
        assert sum(endpoint.faults.values()) >= 3, "the faults that were asked for happened"
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT config_hash, status, score, sample_means FROM trials WHERE run_id = $1 ORDER BY config_hash", run_id
        )
    assert rows
    return [tuple(row) for row in rows]


async def test_one_spec_finds_the_same_on_every_protocol_whatever_happens_on_the_way(engines: Engines) -> None:
    wanted = await scores_and_bill(engines, "openai", None)
    for provider in PROTOCOLS:
        assert await scores_and_bill(engines, provider, MIXED) == wanted, provider


@pytest.mark.parametrize("provider", PROTOCOLS)
async def test_an_agent_calls_its_tools_on_every_protocol(engines: Engines, provider: str) -> None:
    def parcel(asked: Asked) -> web.Response:
        return web.json_response(f"{asked.path[1:]} of {asked.body.get('order', 'the shop')}")

    async with json_endpoint(parcel) as shop, asked_of(engines, provider, None) as (endpoint, queue):
        order = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
        tools = [
            {"kind": "http", "name": name, "url": f"{shop.origin}/{name}", "description": told, "parameters": schema}
            for name, told, schema in [
                ("place", "Tells where a parcel is.", order),
                ("hours", "Opening hours.", {"type": "object", "properties": {}}),
            ]
        ]
        agent = spec(provider, queue, "agent") | {
            "target": {
                "kind": "agent",
                "model": f"{provider}/{AGENT}",
                "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "{{input}}"}],
                "tools": tools,
                "user": {"kind": "scripted", "says": ["What are your opening hours?"]},
            },
            "dataset": {"items": [{"input": f"Where is parcel A-{n}?"} for n in range(3)], "splits": "none"},
            "scorers": [{"kind": "tools_called", "calls": ["place", "hours"], "order": "exact"}],
            "objective": "tools_called",
            "optimizer": "none",
            "stop": {},
            "prices": {f"{provider}/{AGENT}": PRICE},
        }
        result = await engines.run(agent)
    bill, spend = endpoint.bill, result["spend"]
    assert (result["baseline_score"], bill.answers) == (1.0, 3 * 4), "two rounds of a call and an answer"
    assert spend["tokens"] == bill.read + bill.written
    cached = CACHED * bill.answers
    assert spend["cost"] == pytest.approx(((bill.read - cached) * 10 + cached * 1 + bill.written * 100) / 1e6, rel=1e-9)
    assert sorted(asked.body.get("order", "") for asked in shop.asked) == ["", "", "", "A-0", "A-1", "A-2"]
    last = max(map(str, endpoint.bodies), key=len)
    wanted = [SEALS[provider]] if provider in SEALS else []
    assert [seal for seal in SEALS.values() if seal in last] == wanted, "what it thought before a call came back with the call"


@pytest.mark.parametrize("provider", ["openai", "bedrock"])
async def test_in_auto_mode_what_has_no_batches_is_asked_at_once(engines: Engines, provider: str) -> None:
    """An endpoint without a batch API, and a provider without batches: for target and judge, with a budget."""
    wanted = await scores_and_bill(engines, "openai", None)
    assert await scores_and_bill(engines, provider, None, "auto") == wanted


@pytest.mark.parametrize("of_bedrock", ["target", "judge"])
async def test_what_is_to_be_asked_in_batches_alone_and_has_none_is_refused_unpaid(engines: Engines, of_bedrock: str) -> None:
    async with asked_of(engines, "bedrock", None) as (endpoint, queue):
        asked = spec("openai", queue, f"no-batches-of-{of_bedrock}")
        placed, where = (asked["target"], "target") if of_bedrock == "target" else (asked["scorers"][0], "scorers[0]")
        placed["model"] = f"bedrock/{ECHO}"
        asked["prices"][f"bedrock/{ECHO}"] = PRICE
        asked["execution"]["mode"] = "batch"
        with pytest.raises(WorkflowFailureError) as refused:
            await engines.run(asked)
    told = f"{where}.model: 'bedrock/{ECHO}' is of a provider that has no batches; set "
    assert told in str(refused.value.cause) and "execution.mode: auto or direct" in str(refused.value.cause)
    assert endpoint.bill.answers == 0


async def test_a_model_that_everybody_knows_needs_no_price_and_the_report_says_whose_it_was(engines: Engines) -> None:
    async with asked_of(engines, "anthropic", None, named={"claude-opus-4-1": ECHO}) as (endpoint, queue):
        known = spec("anthropic", queue, "published")
        known["target"]["model"] = "anthropic/claude-opus-4-1"
        known |= {"scorers": [{"kind": "contains", "values": ["sorry"]}], "objective": "contains", "optimizer": "none"}
        known["stop"], known["prices"] = {}, {}
        result = await engines.run(known, run_id="published")
    bill = endpoint.bill
    plain = bill.read - CACHED * bill.answers
    published = (plain * 15 + CACHED * bill.answers * 1.5 + bill.written * 75) / 1e6
    assert result["spend"]["cost"] == pytest.approx(published, rel=1e-9)
    report = await StoreReader(engines.database).runs.report("published")
    assert report is not None
    [prices] = [text for name, text in figures(facts_of(report)) if name == "Prices"]
    assert prices.startswith("genai-prices 0.") and ", as of 20" in prices and prices.endswith(": anthropic/claude-opus-4-1")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("provider", PROTOCOLS)
async def test_faults_of_every_kind_change_no_score(engines: Engines, provider: str, fault: str) -> None:
    assert await scores_and_bill(engines, provider, fault) == await scores_and_bill(engines, "openai", None)
