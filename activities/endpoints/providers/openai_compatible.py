"""OpenAI's protocol, and every endpoint that speaks it, by OpenAI's SDK."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx2

from activities.endpoints.chat_protocol import StreamedAnswer, parsed
from activities.endpoints.model_faults import ModelRefusal
from activities.endpoints.providers import TIMEOUT
from activities.endpoints.response_bodies import ENCODINGS, lines

if TYPE_CHECKING:
    import openai  # takes a third of a second, which workers without a chat model need not spend at their start


_TAKES_MAX_TOKENS: Final = re.compile(r"(ft:)?(chatgpt|gpt)-[34]")
"""OpenAI's models before GPT-5. Those since then refuse `max_tokens`, and so do the o-series."""


class OpenAiCompatible:
    """Chat completions and embeddings."""

    changes_no_request = False

    def client(self, url: str, key: str, http: httpx2.AsyncClient) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            base_url=url,
            api_key=key,
            max_retries=0,
            timeout=TIMEOUT,
            default_headers={"Accept-Encoding": ENCODINGS},
            http_client=http,
        )

    async def prepare(self, client: object) -> None:
        return

    async def whole(self, client: openai.AsyncOpenAI, body: Mapping[str, Any]) -> dict[str, Any]:
        response = (await client.chat.completions.with_raw_response.create(**_split(body))).http_response
        return parsed(response.content, response.headers.get("content-type", ""))

    async def streamed(
        self, client: openai.AsyncOpenAI, body: Mapping[str, Any], started: float
    ) -> tuple[dict[str, Any], float | None]:
        """Parsed here: the SDK takes three times as long."""
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

    async def embedded(self, client: openai.AsyncOpenAI, model: str, texts: list[str]) -> dict[str, Any]:
        """As floats: the SDK would ask for base64 and decode it itself, which fails in its own ways for other endpoints."""
        response = await client.embeddings.with_raw_response.create(model=model, input=texts, encoding_format="float")
        return parsed(response.http_response.content, response.http_response.headers.get("content-type", ""))

    def refusal_in(self, error: Exception) -> ModelRefusal | None:
        import openai

        if not isinstance(error, openai.APIStatusError):
            return None
        said = error.body.get("message") if isinstance(error.body, dict) else None
        labels = tuple(str(label) for label in (error.code, error.type) if label)
        return ModelRefusal(error.status_code, said if isinstance(said, str) else error.message, labels, error.response.headers)

    def is_lost(self, error: Exception) -> bool:
        import openai

        return isinstance(error, openai.APIError)


def in_openais_words(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request as OpenAI itself takes it: newer models call the longest answer `max_completion_tokens`. Whoever else speaks
    the protocol may know only `max_tokens`, and is sent that."""
    if body.get("max_tokens") is None or _TAKES_MAX_TOKENS.match(body["model"]) is not None:
        return dict(body)
    said = {name: value for name, value in body.items() if name != "max_tokens"}
    return {"max_completion_tokens": body["max_tokens"], **said}


def _split(body: Mapping[str, Any]) -> dict[str, Any]:
    """The SDK's arguments. What it does not have to know goes into the body as it is: it would look at every part of every
    message by its type, which takes it longer than all else about a call."""
    named: dict[str, Any] = {name: body[name] for name in ("model", "stream") if name in body}
    rest = {name: value for name, value in body.items() if name not in named}
    return {**named, "messages": [], "extra_body": rest}
