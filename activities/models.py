"""Chat models behind OpenAI-compatible URLs: one client per URL and process, errors told apart, and patience with them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import aiohttp
import httpx2

from activities.gate import Gates
from activities.metering import Bound, metered
from activities.operator_lists import DEFAULT_MODEL_URL, KeyMissing, NotListed, OperatorLists
from activities.patience import Patience as Patience
from activities.patience import patiently as patiently
from activities.patience import retry_after
from activities.targets.faults import BROKEN_ANSWER, CandidateFault, Refused, Throttled, TookTooLong, Unreachable
from workflows.model.failures import shorten
from workflows.model.target import Price
from workflows.rules.bounds import chat_bound

if TYPE_CHECKING:
    import openai  # takes a third of a second, which workers without a chat model need not spend at their start

CONNECT_TIMEOUT = 10.0
MOST_CONNECTIONS = 10_000
"""The run's own limits decide what is in flight, so the client must not add one."""

_THROTTLING = (429, 503, 529)
_PERMANENT = (401, 402, 403, 404, 405, 410, 501)
_TRANSIENT_BELOW_500 = (408, 409, 423, 425)
_OUT_OF_MONEY = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")
_NO_SUCH_MODEL = ("model_not_found", "invalid_model", "deployment_not_found")


class Counted(Protocol):
    """An answer that says what it took."""

    @property
    def tokens(self) -> int: ...
    @property
    def cost(self) -> float: ...


T = TypeVar("T", bound=Counted)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a chat model said, and what it took."""

    value: Any
    """The text, or a mapping with `content` and `tool_calls`."""
    tokens: int
    cost: float
    latency_ms: float
    ttft_ms: float | None = None
    finish_reason: str | None = None


class ChatModels:
    """The worker's chat clients and the gates before them."""

    def __init__(
        self,
        gates: Gates,
        *,
        environment: Mapping[str, str] | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.gates = gates
        self.patience = patience or Patience()
        self._environment = environment if environment is not None else os.environ
        self._clients: dict[str, openai.AsyncOpenAI] = {}

    @property
    def environment(self) -> Mapping[str, str]:
        """The worker's, or what a test gives instead."""
        return self._environment

    def base_url(self, given: str | None) -> str:
        return (given or self._environment.get("OPENAI_BASE_URL") or DEFAULT_MODEL_URL).rstrip("/")

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
    ) -> ChatAnswer:
        """One answer, however often infrastructure has to be tried. `timeout` bounds each single call."""
        body = {**parameters, "model": model, "messages": messages}
        read = _streamed if stream else _whole

        async def answered(client: openai.AsyncOpenAI) -> ChatAnswer:
            started = time.perf_counter()
            answer, ttft_ms = await read(client, body, started)
            latency_ms = (time.perf_counter() - started) * 1000
            return _understood(answer, prices.get(model), latency_ms, ttft_ms)

        return await self.call(base_url, model, timeout, answered, lambda: chat_bound(body, prices.get(model)))

    async def call(
        self,
        base_url: str | None,
        model: str,
        timeout: float,
        answered: Callable[[openai.AsyncOpenAI], Awaitable[T]],
        at_most: Bound,
    ) -> T:
        """What one call gives, behind the endpoint's gate, with errors told apart and infrastructure tried again."""
        import openai

        url = self.base_url(base_url)
        client = self._client(url, model)
        gate = self.gates.at(url, model)

        async def once() -> T:
            try:
                async with asyncio.timeout(timeout):
                    answer = await answered(client)
                    gate.took(answer.tokens)
                    return answer
            except CandidateFault as fault:
                gate.took(fault.tokens)
                raise
            except TimeoutError:
                raise TookTooLong(f"took longer than the sample timeout of {timeout:g} s") from None
            except (openai.APIError, aiohttp.ClientError, httpx2.HTTPError, OSError) as error:
                raise _classified(error, model, url) from error

        async def paid_for() -> T:
            async with metered(at_most) as call:
                call.begins()
                answer = await once()
                if answer.tokens:  # no answer takes none: an endpoint that reports none leaves it unknown
                    call.took(answer.tokens, answer.cost)
                return answer

        return await patiently(gate, paid_for, self.patience)

    def _client(self, url: str, model: str) -> openai.AsyncOpenAI:
        import openai

        if url not in self._clients:
            self._clients[url] = openai.AsyncOpenAI(
                base_url=url,
                api_key=self._key_for(url, model),
                max_retries=0,
                timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
                http_client=openai.DefaultAioHttpClient(
                    limits=httpx2.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=30.0)
                ),
            )
        return self._clients[url]

    def _key_for(self, url: str, model: str) -> str:
        """The worker's key, for endpoints that the worker's operator named: a spec must not be able to send it anywhere."""
        try:
            return OperatorLists(self._environment).model_key(url)
        except (NotListed, KeyMissing) as error:
            where = f"model {model!r}" if isinstance(error, NotListed) else f"model {model!r} at {url}"
            raise Refused(f"{where}: {error}") from None


async def _whole(client: openai.AsyncOpenAI, body: dict[str, Any], started: float) -> tuple[Any, float | None]:
    response = await client.chat.completions.with_raw_response.create(**_split(body))
    return parsed(response.http_response.content), None


async def _streamed(client: openai.AsyncOpenAI, body: dict[str, Any], started: float) -> tuple[Any, float | None]:
    """A streamed answer put together, and the milliseconds to its first piece.

    Parsed here: the SDK takes three times as long.
    """
    ttft_ms: float | None = None
    content: list[str] = []
    refusal: list[str] = []
    calls: dict[int, dict[str, str]] = {}
    finish: str | None = None
    usage: Any = None
    ended = False
    request = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with client.chat.completions.with_streaming_response.create(**_split(request)) as response:
        async for line in response.iter_lines():
            if not line.startswith("data:"):
                continue
            data = line[5:].strip()
            if data == "[DONE]":
                ended = True
                break
            chunk = parsed(data)
            if chunk.get("error"):
                raise Unreachable(f"the stream broke off: {shorten(str(chunk['error']), 300)}", kind=BROKEN_ANSWER)
            usage = chunk.get("usage") or usage
            for choice in (chunk.get("choices") or [])[:1]:
                delta = choice.get("delta") or {}
                finish = choice.get("finish_reason") or finish
                if ttft_ms is None and (delta.get("content") or delta.get("tool_calls") or delta.get("refusal")):
                    ttft_ms = (time.perf_counter() - started) * 1000
                content.append(delta.get("content") or "")
                refusal.append(delta.get("refusal") or "")
                for piece in delta.get("tool_calls") or []:
                    call = calls.setdefault(piece.get("index", 0), {"name": "", "arguments": ""})
                    function = piece.get("function") or {}
                    call["name"] += function.get("name") or ""
                    call["arguments"] += function.get("arguments") or ""
    if not ended and finish is None:
        raise Unreachable("the stream broke off before the answer was complete", kind=BROKEN_ANSWER)
    message = {
        "content": "".join(content),
        "refusal": "".join(refusal),
        "tool_calls": [{"function": call} for _, call in sorted(calls.items())],
    }
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}, ttft_ms


def _split(body: dict[str, Any]) -> dict[str, Any]:
    """The SDK's arguments. What it does not know by name goes into the body as it is."""
    named: dict[str, Any] = {name: body[name] for name in ("model", "messages", "stream") if name in body}
    return {**named, "extra_body": {name: value for name, value in body.items() if name not in named}}


def parsed(text: bytes | str) -> dict[str, Any]:
    """A body as a JSON object; whoever sends something else is broken infrastructure."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        start = text[:80].decode("utf-8", "replace") if isinstance(text, bytes) else text[:80]
        raise Unreachable(f"the endpoint answered something that is not a JSON object: {start!r}", kind=BROKEN_ANSWER)
    return answer


def _understood(answer: dict[str, Any], price: Price | None, latency_ms: float, ttft_ms: float | None) -> ChatAnswer:
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(message, dict):
        raise Unreachable(f"the endpoint's answer has no choices: {shorten(json.dumps(answer), 200)}", kind=BROKEN_ANSWER)
    finish = first.get("finish_reason")
    tokens, cost = bill(answer.get("usage"), price)

    def unusable(why: str, kind: str) -> CandidateFault:
        return CandidateFault(shorten(why), tokens=tokens, cost=cost, latency_ms=latency_ms, kind=kind)

    if finish == "content_filter":
        raise unusable("the answer was withheld by the content filter", "content filter")
    content = message.get("content")
    calls = message.get("tool_calls") or []
    if message.get("refusal") and not content:
        raise unusable(f"the model refused: {message['refusal']}", "refusal")
    if not calls and not (isinstance(content, str) and content.strip()):
        hint = "; max_tokens may be too small" if finish == "length" else ""
        raise unusable(f"the model gave an empty answer (finish reason {finish}){hint}", "empty answer")
    value: Any = content
    if calls:
        value = {"content": content or None, "tool_calls": [_tool_call(call) for call in calls]}
    return ChatAnswer(value, tokens, cost, latency_ms, ttft_ms, finish)


def _tool_call(call: Any) -> dict[str, Any]:
    function = call.get("function") or {} if isinstance(call, dict) else {}
    arguments = function.get("arguments")
    try:
        parsed = json.loads(arguments or "")
    except (TypeError, ValueError, RecursionError):
        parsed = arguments
    return {"name": function.get("name"), "arguments": parsed}


def bill(usage: Any, price: Price | None) -> tuple[int, float]:
    """Tokens in and out, and what they cost; what an endpoint does not report counts as 0."""
    if not isinstance(usage, dict):
        return 0, 0.0
    prompt, completion = _tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens"))
    tokens = _tokens(usage.get("total_tokens")) or prompt + completion
    if price is None:
        return tokens, 0.0
    details = usage.get("prompt_tokens_details")
    cached = min(prompt, _tokens(details.get("cached_tokens")) if isinstance(details, dict) else 0)
    cached_price = price.input if price.cached_input is None else price.cached_input
    cost = (prompt - cached) * price.input + cached * cached_price + completion * price.output
    return tokens, cost / 1_000_000


def _tokens(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _classified(error: Exception, model: str, url: str) -> Exception:
    """The SDK's error as one of ours. Never shows headers, where the key is."""
    import openai

    if not isinstance(error, openai.APIStatusError):
        reason = error.__cause__ or error
        return Unreachable(shorten(f"{url} cannot be reached: {type(reason).__name__}: {reason}", 300))
    status, said = error.status_code, shorten(_message_of(error), 500)
    where, kind = f"model {model!r} at {url}: HTTP {status}: {said}", f"http {status}"
    if error.code in _OUT_OF_MONEY or error.type in _OUT_OF_MONEY or status == 402:
        return Refused(f"{where}; the account has no credit left, add some or use another OPENAI_API_KEY", kind=kind)
    if status in _THROTTLING:
        return Throttled(where, retry_after(error.response.headers), kind=kind)
    if (status >= 500 and status not in _PERMANENT) or status in _TRANSIENT_BELOW_500:
        return Unreachable(where, kind=kind)
    if status in (401, 403):
        return Refused(f"{where}; check OPENAI_API_KEY in the worker's environment, and that it may use this model", kind=kind)
    if status in _PERMANENT or error.code in _NO_SUCH_MODEL:
        return Refused(f"{where}; check the model's name and the URL (OPENAI_BASE_URL or base_url)", kind=kind)
    return CandidateFault(f"the model refused the request (HTTP {status}): {said}", kind=kind)


def _message_of(error: openai.APIStatusError) -> str:
    """What the endpoint said, without anything that looks like a key: some endpoints quote it."""
    body = error.body
    said = body.get("message") if isinstance(body, dict) else None
    text = said if isinstance(said, str) else error.message
    key = error.request.headers.get("authorization", "").removeprefix("Bearer ")
    words = ("(hidden)" if word.strip("'\".,:;").startswith("sk-") else word for word in text.split())
    shown = " ".join(words)
    return shown.replace(key, "(hidden)") if len(key) >= 4 else shown
