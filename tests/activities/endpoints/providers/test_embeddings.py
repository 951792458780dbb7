"""Texts are embedded where a provider can."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from activities.endpoints.call_context import CallContext
from activities.endpoints.embeddings import embed
from activities.targets.faults import Refused
from tests.support.provider_endpoints import Told, asking
from workflows.model.spec.prices import Price


async def test_texts_are_embedded_where_a_provider_can() -> None:
    vectors = {"embeddings": [{"values": [1.0, 0.0]}, {"values": [0.0, 1.0]}]}
    async with asking("google", answering=lambda _: web.json_response(vectors)) as (endpoint, models):
        given: dict[str, Any] = {"base_url": None, "timeout": 5.0, "prices": {}, "context": CallContext()}
        embedded = await embed(models, ["a", "b"], model="google/embedding", **given)
        assert [one["content"]["parts"] for one in endpoint.bodies[0]["requests"]] == [[{"text": "a"}], [{"text": "b"}]]
        with pytest.raises(Refused, match="no embeddings"):
            await embed(models, ["a"], model="anthropic/claude", **given)
    assert embedded.vectors == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("model", ["amazon.titan-embed-text-v2:0", "eu.cohere.embed-v4:0"])
async def test_bedrocks_models_embed_each_in_its_own_words(model: str) -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0]}

    def answer(body: Told) -> web.StreamResponse:
        texts = body["texts"] if "texts" in body else [body["inputText"]]
        found = [vectors[text] for text in texts]
        told = {"embeddings": {"float": found}} if "texts" in body else {"embedding": found[0]}
        return web.json_response(told, headers={"x-amzn-bedrock-input-token-count": str(len(texts))})

    async with asking("bedrock", answering=answer) as (_, models):
        given: dict[str, Any] = {"base_url": None, "timeout": 5.0, "context": CallContext()}
        embedded = await embed(
            models, ["a", "b"], model=f"bedrock/{model}", prices={f"bedrock/{model}": Price(input=10, output=0)}, **given
        )
        with pytest.raises(Refused, match="no embeddings that are understood"):
            await embed(models, ["a"], model="bedrock/anthropic.claude", prices={}, **given)
    assert (embedded.vectors, embedded.tokens) == ([[1.0, 0.0], [0.0, 1.0]], 2)
    assert embedded.cost == pytest.approx(20 / 1e6)
