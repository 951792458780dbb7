"""Embeddings of every provider that has them, with the clients, the gates and the patience of chat models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels, ModelRequest
from activities.endpoints.chat_protocol import bill, refuse_errors
from activities.endpoints.providers import provider_named
from activities.targets.faults import BROKEN_ANSWER, CandidateFault
from ratchet._formats.canonical import LARGEST_NUMBER
from workflows.model.spec.prices import Price
from workflows.rules.decisions.call_bounds import embedding_bound


@dataclass(frozen=True, slots=True)
class Embedded:
    """One vector per text, and what they took."""

    vectors: list[list[float]]
    tokens: int
    cost: float


async def embed(
    models: ChatModels,
    texts: Sequence[str],
    *,
    base_url: str | None,
    model: str,
    timeout: float,
    prices: Mapping[str, Price],
    context: CallContext,
) -> Embedded:
    """The texts' vectors, in one call however often infrastructure has to be tried."""

    place = models.lists.model_place(model, base_url)

    async def answered(client: Any) -> Embedded:
        answer = await provider_named(place.provider).embedded(client, place.name, list(texts))
        refuse_errors(answer)
        tokens, cost = bill(answer.get("usage"), prices.get(model))
        vectors = _vectors(answer.get("data"), len(texts))
        if vectors is None:
            why = f"the endpoint's answer does not have {len(texts)} embeddings of one length"
            raise CandidateFault(why, tokens=tokens, cost=cost, kind=BROKEN_ANSWER, billed="yes")
        return Embedded(vectors, tokens, cost)

    request = ModelRequest("embeddings", {})
    return await models.call(
        base_url, model, timeout, answered, lambda: embedding_bound(texts, prices.get(model)), context, request
    )


def _vectors(data: Any, wanted: int) -> list[list[float]] | None:
    """In the order of the texts; None unless all are of one length and of finite numbers."""
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    if all(isinstance(entry.get("index"), int) for entry in entries):
        entries = sorted(entries, key=lambda entry: entry["index"])
    vectors = [vector for entry in entries if _is_vector(vector := entry.get("embedding"))]
    if len(vectors) != wanted or len({len(vector) for vector in vectors}) > 1:
        return None
    return [[float(number) for number in vector] for vector in vectors]


def _is_vector(value: Any) -> TypeGuard[list[float]]:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(number, int | float) and abs(number) <= LARGEST_NUMBER for number in value)
    )
