"""Endpoints of every provider, and models that ask them as an operator has set them up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatAnswer, ChatModels
from activities.endpoints.gate import Gates
from activities.endpoints.retry_policy import Patience
from activities.settings import MODEL_URLS
from activities.targets.faults import Fault
from tests.support.allowed import lists_of
from tests.support.anthropic_endpoint import AnthropicEndpoint
from tests.support.bedrock_endpoint import REGION, BedrockEndpoint
from tests.support.gemini_endpoint import GeminiEndpoint
from tests.support.model_endpoints import ModelEndpoint, OpenAiEndpoint, served
from tests.support.spec_building import request
from workflows.model.spec.prices import Price
from workflows.model.spec.request import OptimizationRequest

KEY = "secret-of-4711-tests"
ONCE = Patience(seconds=-1.0, attempts=1, slow_attempts=1)
AGAIN = Patience(seconds=5.0, attempts=2, first_delay=0.01)
PRICE = Price(input=10, output=100, cached_input=1)
PROTOCOLS: dict[str, Callable[..., ModelEndpoint]] = {
    "openai": OpenAiEndpoint,
    "anthropic": AnthropicEndpoint,
    "google": GeminiEndpoint,
    "bedrock": BedrockEndpoint,
}
Told = dict[str, Any]


def environment(provider: str, endpoint: ModelEndpoint) -> dict[str, str]:
    """An operator whose endpoint of this provider is that one."""
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY}
    names = {
        "anthropic": "ANTHROPIC_BASE_URL",
        "google": "GOOGLE_GEMINI_BASE_URL",
        "bedrock": "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    }
    if provider in names:
        return {**keys, "AWS_REGION": REGION, names[provider]: endpoint.url}
    return {**keys, "OPENAI_BASE_URL": f"{endpoint.url}/v1", MODEL_URLS: f"openai={endpoint.url}"}


@asynccontextmanager
async def asking(provider: str, patience: Patience = ONCE, **endpoint: Any) -> AsyncIterator[tuple[ModelEndpoint, ChatModels]]:
    async with served(PROTOCOLS[provider](**endpoint)) as there:
        models = ChatModels(Gates(), lists_of(environment(provider, there)), patience=patience)
        try:
            yield there, models
        finally:
            await models.close()


async def ask(models: ChatModels, provider: str, messages: list[Any] | None = None, **more: Any) -> ChatAnswer:
    given: dict[str, Any] = {"stream": False, "timeout": 2.0, "parameters": {}, **more}
    model = f"{provider}/simulated-echo"
    messages = messages or [{"role": "system", "content": "Repeat."}, {"role": "user", "content": "one two three"}]
    return await models.ask(
        base_url=None, model=model, messages=messages, prices={model: PRICE}, context=CallContext(), **given
    )


async def fault_of(provider: str, told: Any, *, streams: bool = False, **response: Any) -> Fault:
    """What it means that the endpoint answers this, whole or as the events of a stream."""

    async def answer(_: Told) -> web.StreamResponse:
        return web.Response(text=json.dumps(told), content_type="application/json", **response)

    async with asking(provider, answering=answer) as (_, models):
        with pytest.raises(Fault) as raised:
            await ask(models, provider, stream=streams)
        return raised.value


def asked_of(model: str) -> OptimizationRequest:
    """A run whose target is this model."""
    target = {"kind": "chat", "model": model, "messages": [{"role": "user", "content": "{{input}}"}]}
    return request(target=target, dataset={"items": [{"input": "x"}]})
