"""Chat models behind OpenAI-compatible URLs: one client per URL and process, errors told apart, and patience with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import aiohttp
import httpx2

from activities.budget.metering import metered
from activities.endpoints.call_context import Bound, CallContext
from activities.endpoints.chat_protocol import ChatAnswer as ChatAnswer
from activities.endpoints.chat_protocol import StreamedAnswer, parsed, understood
from activities.endpoints.endpoint_policy import (
    KEY_REFUSED,
    KeyMissing,
    NotListed,
    OperatorLists,
    causes_of,
    fault_of_connection,
    fault_of_status,
)
from activities.endpoints.gate import Gates
from activities.endpoints.response_bodies import ENCODINGS, bound_the_body, lines
from activities.endpoints.retry_policy import Patience as Patience
from activities.endpoints.retry_policy import patiently as patiently
from activities.observation.call_observation import UNOBSERVED, CallFacts, CallObservation
from activities.secret_texts import without_secrets
from activities.targets.faults import BROKEN_ANSWER, CandidateFault, Fault, Refused, TookTooLong
from workflows.model.failures import described, shorten
from workflows.model.spec.prices import Price
from workflows.rules.decisions.call_bounds import chat_bound

if TYPE_CHECKING:
    import openai  # takes a third of a second, which workers without a chat model need not spend at their start

CONNECT_TIMEOUT = 10.0
MOST_CONNECTIONS = 10_000
"""The run's own limits decide what is in flight, so the client must not add one."""

_OUT_OF_MONEY = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")
_NO_SUCH_MODEL = ("model_not_found", "invalid_model", "deployment_not_found")
_CHECK_THE_KEY = "check OPENAI_API_KEY in the worker's environment, and that it may use this model"
_CHECK_THE_MODEL = "check the model's name and the URL (OPENAI_BASE_URL or base_url)"


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
        self._clients: dict[str, openai.AsyncOpenAI] = {}

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

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
    ) -> ChatAnswer:
        """One answer, however often infrastructure has to be tried. `timeout` bounds each single call."""
        body = {**parameters, "model": model, "messages": messages}
        read = _streamed if stream else _whole

        async def answered(client: openai.AsyncOpenAI) -> ChatAnswer:
            started = time.perf_counter()
            answer, ttft_ms = await read(client, body, started)
            latency_ms = (time.perf_counter() - started) * 1000
            return understood(answer, prices.get(model), latency_ms, ttft_ms)

        request = ModelRequest("chat", body)
        return await self.call(
            base_url, model, timeout, answered, lambda: chat_bound(body, prices.get(model)), context, request
        )

    async def call(
        self,
        base_url: str | None,
        model: str,
        timeout: float,
        answered: Callable[[openai.AsyncOpenAI], Awaitable[T]],
        at_most: Bound,
        context: CallContext,
        request: ModelRequest,
    ) -> T:
        """What one call gives, behind the endpoint's gate, with errors told apart and infrastructure tried again.

        Nothing but faults comes out of it: an exception that nobody foresaw is a broken answer, and not asked for again.
        """
        import openai

        url = self.lists.model_url(base_url)
        client = self._client(url, model)
        gate = self.gates.at(url, model)

        async def once() -> T:
            try:
                async with asyncio.timeout(timeout):
                    answer = await answered(client)
                    gate.took(context.caller, answer.tokens)
                    return answer
            except TimeoutError:
                raise TookTooLong(f"took longer than the sample timeout of {timeout:g} s") from None
            except Exception as error:
                fault = _fault_in(error)
                if fault is not None:
                    gate.took(context.caller, fault.tokens)
                    raise fault from None
                if isinstance(error, openai.APIError | aiohttp.ClientError | httpx2.HTTPError | OSError):
                    raise _classified(error, model, url) from error
                why = f"the answer cannot be understood: asking for it raised {described(error)}"
                raise CandidateFault(shorten(why), kind=BROKEN_ANSWER) from error

        facts = CallFacts(request.operation, context.caller.run_id, model, url, request=request.body)

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

    def _client(self, url: str, model: str) -> openai.AsyncOpenAI:
        import openai

        if url not in self._clients:
            self._clients[url] = openai.AsyncOpenAI(
                base_url=url,
                api_key=self._key_for(url, model),
                max_retries=0,
                timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
                default_headers={"Accept-Encoding": ENCODINGS},
                http_client=openai.DefaultAioHttpClient(
                    limits=httpx2.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=30.0),
                    event_hooks={"response": [bound_the_body]},
                ),
            )
        return self._clients[url]

    def _key_for(self, url: str, model: str) -> str:
        """The worker's key, for endpoints that the worker's operator named: a spec must not be able to send it anywhere."""
        try:
            return self.lists.model_key(url)
        except (NotListed, KeyMissing) as error:
            where = f"model {model!r}" if isinstance(error, NotListed) else f"model {model!r} at {url}"
            raise Refused(f"{where}: {error}") from None


async def _whole(client: openai.AsyncOpenAI, body: dict[str, Any], started: float) -> tuple[Any, float | None]:
    response = (await client.chat.completions.with_raw_response.create(**_split(body))).http_response
    return parsed(response.content, response.headers.get("content-type", "")), None


async def _streamed(client: openai.AsyncOpenAI, body: dict[str, Any], started: float) -> tuple[Any, float | None]:
    """A streamed answer put together, and the milliseconds to its first piece.

    Parsed here: the SDK takes three times as long.
    """
    ttft_ms: float | None = None
    answer = StreamedAnswer()
    request = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with client.chat.completions.with_streaming_response.create(**_split(request)) as response:
        async for line in lines(response.iter_bytes()):
            answer.add(line)
            if ttft_ms is None and answer.began:
                ttft_ms = (time.perf_counter() - started) * 1000
            if answer.complete:
                break
        return answer.whole(response.headers.get("content-type", "")), ttft_ms


def _split(body: dict[str, Any]) -> dict[str, Any]:
    """The SDK's arguments. What it does not know by name goes into the body as it is."""
    named: dict[str, Any] = {name: body[name] for name in ("model", "messages", "stream") if name in body}
    return {**named, "extra_body": {name: value for name, value in body.items() if name not in named}}


def _fault_in(error: BaseException) -> Fault | None:
    """The fault that was met while a body was read, which the SDK takes for trouble with the connection."""
    return next((one for one in causes_of(error) if isinstance(one, Fault)), None)


def _classified(error: Exception, model: str, url: str) -> Fault:
    """The SDK's error as one of ours. Never shows headers, where the key is."""
    import openai

    if not isinstance(error, openai.APIStatusError):
        return fault_of_connection(error.__cause__ or error, place=url)
    status, said = error.status_code, shorten(_message_of(error), 500)
    place, kind = f"model {model!r} at {url}", f"http {status}"
    where = f"{place}: HTTP {status}: {said}"
    if error.code in _OUT_OF_MONEY or error.type in _OUT_OF_MONEY or status == 402:
        return Refused(f"{where}; the account has no credit left, add some or use another OPENAI_API_KEY", kind=kind)
    advice = _CHECK_THE_KEY if status in KEY_REFUSED else _CHECK_THE_MODEL
    fault = fault_of_status(status, said, error.response.headers, place=place, advice=advice, candidate="the model")
    if isinstance(fault, CandidateFault) and error.code in _NO_SUCH_MODEL:
        return Refused(f"{where}; {advice}", kind=kind)
    return fault


def _message_of(error: openai.APIStatusError) -> str:
    """What the endpoint said, without anything that looks like a key: some endpoints quote it."""
    body = error.body
    said = body.get("message") if isinstance(body, dict) else None
    text = said if isinstance(said, str) else error.message
    key = error.request.headers.get("authorization", "").removeprefix("Bearer ")
    return without_secrets(" ".join(text.split()), key)
