"""A small real HTTP server that speaks the OpenAI protocol and says of itself that it is simulated.

It serves the demo and the tests. In a test:

    async with simulated_model() as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key="any")
        server.simulate({"status": 429, "retry_after": "1", "first": 2})
        ...
        assert server.stats()["by_status"] == {"429": 2, "200": 1}

As a process: `python -m clients.demo --port 0`.
"""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from clients.demo.call_log import CallLog, LoggedCall
from clients.demo.delivery import deliver
from clients.demo.deterministic_text import as_base64, count_tokens, cut_to_tokens, digest, embed
from clients.demo.injected_faults import RateLimit, Rule, RuleBook, RuleLike, Treatment, parse_rules
from clients.demo.models import CHAT_MODELS, EMBEDDING, MODEL_IDS, OWNER, Ask, tool_call
from clients.demo.protocol import Answer, ChatRequest, EmbeddingRequest, error_body, explain, request_key, usage

SERVER_NAME = "ratchet-simulated/1"
_MOST_BYTES = 64 * 1024 * 1024
_DEFAULT_DIMENSIONS = 256
_BORN = 1_700_000_000


Answering = Callable[[ChatRequest], Awaitable[tuple[str | None, tuple[str, str] | None]]]
"""Answers for every model, in the place of those that the server has: with a text, or a tool's name and arguments as JSON."""


class Unanswerable(Exception):
    """Whoever answers has no answer, and with this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class SimulatedModel:
    """A running simulated server. Its methods do what the `/simulate` endpoints do."""

    def __init__(
        self,
        *,
        seed: int = 7,
        latency_ms: float = 0.0,
        jitter: float = 0.0,
        requests_per_second: float | None = None,
        required_key: str | None = None,
        rules: list[RuleLike] | None = None,
        answering: Answering | None = None,
    ) -> None:
        self.heard: list[LoggedCall] | None = None if answering is None else []
        """Every call, where somebody else answers and so wants to know them."""
        self.url = ""
        """Where the server listens, without a path."""
        self._seed = seed
        self._answering = answering
        self._required_key = required_key
        self._initial = _initial_rules(seed, latency_ms, jitter, requests_per_second, rules or [])
        self._rules = RuleBook()
        self._rules.add(self._initial)
        self._ledger = CallLog()
        self._replicates: Counter[str] = Counter()
        self._served = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return f"{self.url}/v1"

    @property
    def calls(self) -> int:
        """How many calls were made, whatever became of them."""
        return self._ledger.calls

    def stats(self) -> dict[str, Any]:
        """The counts that `GET /simulate/stats` answers."""
        return self._ledger.as_json()

    def simulate(self, *rules: RuleLike) -> None:
        """Add rules behind those in force, as `POST /simulate` does."""
        self._rules.add(parse_rules(list(rules)))

    def reset(self) -> None:
        """Zero all counts and return to the rules that the server was started with, as `DELETE /simulate` does."""
        self._rules.clear()
        self._rules.add(self._initial)
        self._ledger.reset()
        self._replicates.clear()
        if self.heard is not None:
            self.heard.clear()

    async def idle(self) -> None:
        """Wait until no call is in flight: also not one whose caller has just hung up."""
        await self._idle.wait()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen. Port 0 takes a free one."""
        self._runner = web.AppRunner(self._application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=1024)
        await site.start()
        address = self._runner.addresses[0]
        self.url = f"http://{host}:{address[1]}"

    async def stop(self) -> None:
        """Stop listening and cut the calls in flight."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _application(self) -> web.Application:
        app = web.Application(client_max_size=_MOST_BYTES)
        app.on_response_prepare.append(_sign)
        app.router.add_post("/v1/chat/completions", self._paid(self._chat))
        app.router.add_post("/v1/embeddings", self._paid(self._embeddings))
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{id}", self._model)
        app.router.add_post("/simulate", self._control)
        app.router.add_get("/simulate", self._show_control)
        app.router.add_delete("/simulate", self._clear_control)
        app.router.add_get("/simulate/stats", self._show_stats)
        app.router.add_route("*", "/{path:.*}", _unknown_path)
        return app

    def _paid(
        self, handle: Callable[[web.Request, LoggedCall], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Count the call, and answer what is wrong with it in OpenAI's words."""

        async def counted(request: web.Request) -> web.StreamResponse:
            self._idle.clear()
            try:
                return await answered(request)
            finally:
                if self._ledger.in_flight == 0:
                    self._idle.set()

        async def answered(request: web.Request) -> web.StreamResponse:
            with self._ledger.call() as call:
                if self.heard is not None:
                    self.heard.append(call)
                try:
                    response = self._refusal(request) or await handle(request, call)
                except ValidationError as problem:
                    message, param = explain(problem)
                    response = _error(400, message, param=param)
                except ValueError as problem:
                    response = _error(400, f"The body is not valid JSON: {problem}")
                except ConnectionError:
                    return web.Response()  # nobody is there any more to read it
                call.outcome = str(response.status)
                return response

        return counted

    async def _chat(self, request: web.Request, call: LoggedCall) -> web.StreamResponse:
        raw = json.loads(await request.read())
        chat = ChatRequest.model_validate(raw)
        call.chat = chat
        if self._answering is None and chat.model not in CHAT_MODELS:
            return _unknown_model(chat.model)
        key = request_key(chat.model, raw["messages"])
        self._ledger.received(call, key)
        treatment = self._treat(request, chat.model, lambda: "\n".join(message.text for message in chat.messages))
        if refused := _refused(treatment):
            return refused
        try:
            answer = call.answer = await self._answer(chat, key)
        except Unanswerable as problem:
            return _error(problem.status, str(problem))
        include_usage = chat.stream_options is not None and chat.stream_options.include_usage
        response = await deliver(
            request,
            answer,
            stream=bool(chat.stream),
            include_usage=include_usage,
            fault=treatment.fault,
            delay=treatment.delay,
        )
        call.answered = treatment.fault is None or treatment.fault.lie is None
        self._ledger.spend(answer.usage)
        return response

    async def _answer(self, chat: ChatRequest, key: str) -> Answer:
        if chat.seed is not None:
            replicate = f"seed {chat.seed}"
        else:
            self._replicates[key] += 1
            replicate = f"call {self._replicates[key]}"
        if self._answering is not None:
            content, tool = await self._answering(chat)
        else:
            ask = Ask(chat, self._seed, replicate)
            tool = tool_call(ask)
            content = None if tool else CHAT_MODELS[chat.model](ask)
        finish = "tool_calls" if tool else "stop"
        if content is not None:
            content, finish = _within_limits(content, chat)
        spent = count_tokens(content if content is not None else " ".join(tool or ()))
        self._served += 1
        return Answer(
            id=f"chatcmpl-simulated-{digest(key, replicate, self._served)}",
            model=chat.model,
            created=int(time.time()),
            fingerprint=f"fp_simulated_{self._seed}",
            content=content,
            tool=tool,
            finish_reason=finish,
            usage=usage(chat.prompt_tokens, max(1, spent)),
        )

    async def _embeddings(self, request: web.Request, call: LoggedCall) -> web.StreamResponse:
        wanted = EmbeddingRequest.model_validate_json(await request.read())
        texts = wanted.texts
        if self._answering is None and wanted.model != EMBEDDING:
            return _unknown_model(wanted.model)
        if not texts or not all(texts):
            return _error(400, "Invalid value for 'input': it must not be empty", param="input")
        self._ledger.received(call, digest(wanted.model, *texts))
        treatment = self._treat(request, wanted.model, lambda: "\n".join(texts))
        if refused := _refused(treatment):
            return refused
        await asyncio.sleep(treatment.delay)
        vectors = [embed(text, wanted.dimensions or _DEFAULT_DIMENSIONS) for text in texts]
        encode = as_base64 if wanted.encoding_format == "base64" else list
        spent = {"prompt_tokens": sum(map(count_tokens, texts)), "total_tokens": sum(map(count_tokens, texts))}
        data = [{"object": "embedding", "index": index, "embedding": encode(one)} for index, one in enumerate(vectors)]
        call.answered = True
        self._ledger.spend(spent)
        return web.json_response({"object": "list", "model": wanted.model, "data": data, "usage": spent})

    def _treat(self, request: web.Request, model: str, text: Callable[[], str]) -> Treatment:
        now = asyncio.get_running_loop().time()
        return self._rules.treat(request.headers.get("X-Simulate"), model, text, now)

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self._required_key is None or request.headers.get("Authorization") == f"Bearer {self._required_key}":
            return None
        return _error(401, "Incorrect API key provided.", code="invalid_api_key")

    async def _models(self, request: web.Request) -> web.Response:
        data = [_model_card(model) for model in MODEL_IDS]
        return self._refusal(request) or web.json_response({"object": "list", "data": data})

    async def _model(self, request: web.Request) -> web.Response:
        model = request.match_info["id"]
        if refused := self._refusal(request):
            return refused
        return web.json_response(_model_card(model)) if model in MODEL_IDS else _unknown_model(model)

    async def _control(self, request: web.Request) -> web.Response:
        text = await request.text()
        try:
            given = json.loads(text)
            replaces = isinstance(given, dict) and set(given) == {"rules"}
            rules = parse_rules(given["rules"] if replaces else given)
        except ValueError as problem:  # includes pydantic's
            message = explain(problem)[0] if isinstance(problem, ValidationError) else str(problem)
            return _error(400, f"Not a rule: {message}")
        if replaces:
            self._rules.clear()
        self._rules.add(rules)
        return await self._show_control(request)

    async def _show_control(self, _: web.Request) -> web.Response:
        return web.json_response({"rules": self._rules.as_json()})

    async def _clear_control(self, request: web.Request) -> web.Response:
        self.reset()
        return await self._show_control(request)

    async def _show_stats(self, _: web.Request) -> web.Response:
        return web.json_response(self.stats())


@asynccontextmanager
async def simulated_model(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    seed: int = 7,
    latency_ms: float = 0.0,
    jitter: float = 0.0,
    requests_per_second: float | None = None,
    required_key: str | None = None,
    rules: list[RuleLike] | None = None,
) -> AsyncIterator[SimulatedModel]:
    """A simulated server on the running event loop, for as long as the block lasts.

    `seed` decides all noise, `jitter` is a fraction of `latency_ms`, `rules` are control rules in force from the start.
    """
    server = SimulatedModel(
        seed=seed,
        latency_ms=latency_ms,
        jitter=jitter,
        requests_per_second=requests_per_second,
        required_key=required_key,
        rules=rules,
    )
    await server.start(host, port)
    try:
        yield server
    finally:
        await server.stop()


def _initial_rules(
    seed: int, latency_ms: float, jitter: float, requests_per_second: float | None, rules: list[RuleLike]
) -> list[Rule]:
    given = parse_rules(list(rules))
    if latency_ms:
        given.append(Rule.model_validate({"latency": {"mean_ms": latency_ms, "jitter": jitter}, "seed": seed}))
    if requests_per_second:
        given.append(Rule(rate_limit=RateLimit(per_second=requests_per_second)))
    return given


def _within_limits(content: str, chat: ChatRequest) -> tuple[str, str]:
    """Cut the answer where the request says it must end."""
    for stop in chat.stops:
        content = content.split(stop, 1)[0] if stop else content
    limit = chat.token_limit
    if limit is not None and count_tokens(content) > limit:
        return cut_to_tokens(content, limit), "length"
    return content, "stop"


def _refused(treatment: Treatment) -> web.Response | None:
    if treatment.throttled is not None:
        limit, wait = treatment.throttled
        headers = {"Retry-After": limit.retry_after or str(math.ceil(wait))}
        if limit.retry_after is None:
            headers["retry-after-ms"] = str(math.ceil(wait * 1000))
        return _error(429, f"Rate limit reached: {limit.per_second:g} requests per second.", headers=headers)
    fault = treatment.fault
    if fault is None or fault.status is None:
        return None
    headers = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
    return _error(fault.status, fault.message, headers=headers)


def _error(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> web.Response:
    if status == 429:
        kind, code = "requests", code or "rate_limit_exceeded"
    else:
        kind = "server_error" if status >= 500 else "invalid_request_error"
    return web.json_response(error_body(message, kind, param=param, code=code), status=status, headers=headers)


def _unknown_model(model: str) -> web.Response:
    message = f"The model '{model}' does not exist; this simulated server has: {', '.join(MODEL_IDS)}."
    return _error(404, message, param="model", code="model_not_found")


def _model_card(model: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": _BORN, "owned_by": OWNER}


async def _unknown_path(request: web.Request) -> web.Response:
    return _error(404, f"Unknown request URL: {request.method} {request.path}.", code="unknown_url")


async def _sign(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER_NAME
