"""The simulated model, asked as everybody asks one: with the real OpenAI client."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from clients.demo import SimulatedModel, simulated_model
from clients.demo.models import ECHO


@pytest.fixture
async def server() -> AsyncIterator[SimulatedModel]:
    async with simulated_model() as running:
        yield running


def client_of(server: SimulatedModel, **options: Any) -> AsyncOpenAI:
    return AsyncOpenAI(**{"base_url": server.base_url, "api_key": "any", "max_retries": 0, "timeout": 5.0, **options})


def conversation(user: str, system: str = "") -> list[Any]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


async def say(client: AsyncOpenAI, text: str, **options: Any) -> Any:
    return await client.chat.completions.create(**{"model": ECHO, "messages": [{"role": "user", "content": text}], **options})


async def content(client: AsyncOpenAI, text: str, **options: Any) -> str:
    answer = (await say(client, text, **options)).choices[0].message.content
    assert isinstance(answer, str)
    return answer
