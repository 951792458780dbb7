"""Chat models of every provider: one client per URL and process, errors told apart, and patience with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

import aiohttp
import httpx2

from activities.budget.metering import metered
from activities.endpoints.call_context import Bound, CallContext
from activities.endpoints.chat_protocol import ChatAnswer as ChatAnswer
from activities.endpoints.chat_protocol import understood
from activities.endpoints.endpoint_policy import (
    OPENAI,
    KeyMissing,
    ModelPlace,
    NotListed,
    OperatorLists,
    causes_of,
    fault_of_connection,
    is_openais_own,
)
from activities.endpoints.gate import Gates
from activities.endpoints.model_faults import fault_of_refusal
from activities.endpoints.providers import Provider, http_client, provider_named
from activities.endpoints.providers.openai_compatible import in_openais_words
from activities.endpoints.retry_policy import Patience as Patience
from activities.endpoints.retry_policy import patiently as patiently
from activities.endpoints.warm_prefixes import WarmPrefixes
from activities.observation.call_observation import UNOBSERVED, CallFacts, CallObservation
from activities.targets.faults import BROKEN_ANSWER, CandidateFault, Fault, Refused, TookTooLong
from ratchet._formats.canonical import content_hash
from workflows.model.failures import described, shorten
from workflows.model.spec.prices import Price
from workflows.rules.decisions.call_bounds import chat_bound
from workflows.rules.spec.shared_beginnings import SHORTEST_CHARACTERS, is_marked_for_caches, text_of_tools

CACHED_FOR_MINUTES: Final = {"type": "ephemeral"}


class Counted(Protocol):
    """An answer that says what it took."""

    @property
    def tokens(self) -> int: ...
    @property
    def cost(self) -> float: ...


T = TypeVar("T", bound=Counted)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is asked for, as whoever watches calls is told."""

    operation: Literal["chat", "embeddings"]
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Connection:
    """A provider's client of one endpoint."""

    provider: Provider
    client: Any
    key: str
    http: httpx2.AsyncClient


class ChatModels:
    """The worker's chat clients and the gates before them."""

    def __init__(
        self,
        gates: Gates,
        lists: OperatorLists | None = None,
        *,
        patience: Patience | None = None,
        observation: CallObservation = UNOBSERVED,
    ) -> None:
        self.gates = gates
        self.observation = observation
        self.lists = lists or OperatorLists()
        self.patience = patience or Patience()
        self._connections: dict[tuple[str, str], Connection] = {}
        self._prefixes = WarmPrefixes()

    async def close(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.http.aclose()

    async def ask(
        self,
        *,
        base_url: str | None,
        model: str,
        messages: list[dict[str, Any]],
        parameters: Mapping[str, Any],
        stream: bool,
        timeout: float,
        prices: Mapping[str, Price],
        context: CallContext,
        shared: Callable[[], int] = lambda: 0,
        goes_on: bool = False,
    ) -> ChatAnswer:
        """One answer, however often infrastructure has to be tried. `timeout` bounds each single call.

        `shared` says how many of the messages many requests begin with. Where the provider keeps that in its cache, the first
        of these requests goes ahead; where it wants to be told what to keep, it is told. The next request of a conversation
        that `goes_on` begins with all of this one, which is then kept, too.
        """
        place = self.lists.model_place(model, base_url)
        messages, prefix = for_caches(place, messages, parameters.get("tools"), shared, goes_on=goes_on)
        body = body_of(place, messages, parameters)

        async def answered(client: Any) -> ChatAnswer:
            provider = self._connection(place, model).provider
            started = time.perf_counter()
            if stream:
                answer, ttft_ms = await provider.streamed(client, body, started)
            else:
                answer, ttft_ms = await provider.whole(client, body), None
            latency_ms = (time.perf_counter() - started) * 1000
            return understood(answer, prices.get(model), latency_ms, ttft_ms)

        request = ModelRequest("chat", body)
        async with self._prefixes.asking(prefix):
            return await self.call(
                base_url, model, timeout, answered, lambda: chat_bound(body, prices.get(model)), context, request
            )

    async def call(
        self,
        base_url: str | None,
        model: str,
        timeout: float,
        answered: Callable[[Any], Awaitable[T]],
        at_most: Bound,
        context: CallContext,
        request: ModelRequest,
    ) -> T:
        """What one call gives, behind the endpoint's gate, with errors told apart and infrastructure tried again. `answered` is
        given the client of the model's provider.

        Nothing but faults comes out of it: an exception that nobody foresaw is a broken answer, and not asked for again.
        """
        place = self.lists.model_place(model, base_url)
        connection = self._connection(place, model)
        await connection.provider.prepare(connection.client)
        gate = self.gates.at(place.url, model)

        async def once() -> T:
            try:
                async with asyncio.timeout(timeout):
                    answer = await answered(connection.client)
                    gate.took(context.caller, answer.tokens)
                    return answer
            except TimeoutError:
                raise TookTooLong(f"took longer than the sample timeout of {timeout:g} s") from None
            except Exception as error:
                fault = _fault_in(error)
                if fault is not None:
                    gate.took(context.caller, fault.tokens)
                    raise fault from None
                refusal = connection.provider.refusal_in(error)
                if refusal is not None:
                    raise fault_of_refusal(refusal, model, place, connection.key) from error
                if connection.provider.is_lost(error) or isinstance(error, aiohttp.ClientError | httpx2.HTTPError | OSError):
                    raise fault_of_connection(error.__cause__ or error, place=place.url) from error
                why = f"the answer cannot be understood: asking for it raised {described(error)}"
                raise CandidateFault(shorten(why), kind=BROKEN_ANSWER) from error

        facts = CallFacts(
            request.operation, context.caller.run_id, model, place.url, request=request.body, provider=place.provider
        )

        async def paid_for() -> T:
            async with metered(context, at_most) as call:
                call.begins()
                with self.observation.of(facts) as seen:
                    answer = await once()
                    seen.took(answer.tokens, answer.cost)
                    if isinstance(answer, ChatAnswer):
                        seen.split, seen.finish_reason, seen.answer = answer.split, answer.finish_reason, answer.value
                if answer.tokens:  # no answer takes none: an endpoint that reports none leaves it unknown
                    call.took(answer.tokens, answer.cost)
                return answer

        return await patiently(gate, paid_for, self.patience, context)

    def _connection(self, place: ModelPlace, model: str) -> Connection:
        at = (place.provider, place.url)
        if at not in self._connections:
            provider, key = provider_named(place.provider), self._key_for(place.url, model, place.provider)
            http = http_client(follow_redirects=place.provider == OPENAI, to_the_letter=provider.changes_no_request)
            self._connections[at] = Connection(provider, provider.client(place.url, key, http), key, http)
        return self._connections[at]

    def _key_for(self, url: str, model: str, provider: str = OPENAI) -> str:
        """The worker's key, for endpoints that the worker's operator named: a spec must not be able to send it anywhere."""
        try:
            return self.lists.model_key(url, provider)
        except (NotListed, KeyMissing) as error:
            where = f"model {model!r}" if isinstance(error, NotListed) else f"model {model!r} at {url}"
            raise Refused(f"{where}: {error}") from None


def for_caches(
    place: ModelPlace, messages: list[dict[str, Any]], tools: Any, shared: Callable[[], int], *, goes_on: bool
) -> tuple[list[dict[str, Any]], str | None]:
    """Messages with their marks where the provider wants some, and the name of the beginning behind whose first request others
    go; None where they go at once."""
    is_told, prefix = is_marked_for_caches(place.provider, place.name), None
    if not is_told and not keeps_by_itself(place):
        return messages, None
    if is_worth_it(messages[: (alike := shared())], tools):
        prefix = content_hash([place.url, place.name, messages[:alike], tools])
        messages = marked(messages, alike) if is_told else messages
    if is_told and goes_on and is_worth_it(messages, tools):
        messages = marked(messages, len(messages))
    return messages, prefix


def marked(messages: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Messages of which the first ones are to be kept in the provider's cache."""
    return [*messages[: count - 1], {**messages[count - 1], "cache_control": CACHED_FOR_MINUTES}, *messages[count:]]


def keeps_by_itself(place: ModelPlace) -> bool:
    """Whether a provider keeps long beginnings in its cache without being told to."""
    return place.provider == "google" or (place.provider == OPENAI and is_openais_own(place.url))


def is_worth_it(messages: Sequence[Mapping[str, Any]], tools: Any) -> bool:
    """Whether so many messages are long enough to be kept in a provider's cache, with the tools that come before them."""
    said = sum(len(message["content"]) for message in messages if isinstance(message.get("content"), str))
    if said >= SHORTEST_CHARACTERS:
        return True
    return bool(messages) and said + len(text_of_tools(tools)) >= SHORTEST_CHARACTERS


def body_of(place: ModelPlace, messages: list[dict[str, Any]], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A request to a model, in the form of OpenAI's chat completions."""
    body = {**held_to_schema(parameters), "model": place.name, "messages": messages}
    return in_openais_words(body) if place.provider == OPENAI and is_openais_own(place.url) else body


def held_to_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with `response_schema`, a JSON schema by itself, in the form in which requests have it."""
    held = dict(parameters)
    schema = held.pop("response_schema", None)
    if schema is None:
        return held
    named = {"name": "answer", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}, **held}


def _fault_in(error: BaseException) -> Fault | None:
    """The fault that was met while a body was read, which the SDK takes for trouble with the connection."""
    return next((one for one in causes_of(error) if isinstance(one, Fault)), None)
