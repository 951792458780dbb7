"""Bedrock's Converse and its embeddings, by boto3.

boto3 says where a request goes, puts it in form and signs it with what the worker's environment has for AWS. It would hold a
thread while it waits for an answer, and could not be told to stop. So it hands out each request before it sends it, and the
request is sent as those of all other providers are.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import Any, Final

import httpx2

from activities.endpoints.chat_protocol import is_page, parsed
from activities.endpoints.endpoint_policy import SIGNED_FOR, region_in
from activities.endpoints.model_faults import ModelRefusal
from activities.endpoints.providers.converse_content import StreamedMessage, answer_of, request_of, token_count
from activities.targets.faults import BROKEN_ANSWER, NotSent, Refused, Unreachable
from workflows.model.failures import shorten

SERVICE: Final = "bedrock-runtime"
STREAM: Final = "application/vnd.amazon.eventstream"
PREPARING_THREADS: Final = 4
"""Preparing a request takes a millisecond, and now and then a look for new credentials."""

_MOST_COHERE_TEXTS: Final = 96


class Answered(Exception):
    """An answer whose status says that it is none."""

    def __init__(self, refusal: ModelRefusal) -> None:
        super().__init__(refusal.said)
        self.refusal = refusal


class _Prepared(Exception):
    """A request that is ready to be sent, on its way out of boto3."""

    def __init__(self, request: Any) -> None:
        super().__init__("prepared")
        self.request = request


class BedrockConverse:
    """Converse and embeddings."""

    changes_no_request = True

    def client(self, url: str, key: str, http: httpx2.AsyncClient) -> Bedrock:
        return Bedrock(url, region_in(url) or key.removeprefix(SIGNED_FOR), http)

    async def prepare(self, client: Bedrock) -> None:
        await client.prepare()

    async def whole(self, client: Bedrock, body: Mapping[str, Any]) -> dict[str, Any]:
        async with client.asked("converse", request_of(body)) as response:
            return answer_of(parsed(await response.aread(), response.headers.get("content-type", "")))

    async def streamed(self, client: Bedrock, body: Mapping[str, Any], started: float) -> tuple[dict[str, Any], float | None]:
        from botocore.eventstream import EventStreamBuffer

        ttft_ms: float | None = None
        together, events = StreamedMessage(), EventStreamBuffer()
        async with client.asked("converse_stream", request_of(body)) as response:
            kind = response.headers.get("content-type", "")
            if not kind.startswith(STREAM):  # it does not stream, although it was asked to
                return answer_of(parsed(await response.aread(), kind)), None
            async for piece in response.aiter_bytes():
                events.add_data(piece)
                for event in events:
                    together.add(event.headers, event.payload)
                if ttft_ms is None and together.began:
                    ttft_ms = (time.perf_counter() - started) * 1000
        return answer_of(together.whole()), ttft_ms

    async def embedded(self, client: Bedrock, model: str, texts: list[str]) -> dict[str, Any]:
        """Texts one by one with Amazon's models, and many at once with Cohere's; Converse has no embeddings."""
        if "cohere.embed" in model:
            groups = [texts[start : start + _MOST_COHERE_TEXTS] for start in range(0, len(texts), _MOST_COHERE_TEXTS)]
            requests: list[dict[str, Any]] = [
                {"texts": group, "input_type": "clustering", "embedding_types": ["float"], "truncate": "END"}
                for group in groups
            ]
        elif "amazon.titan-embed" in model:
            requests = [{"inputText": text} for text in texts]
        else:
            told = "of Bedrock's models, those of amazon.titan-embed and cohere.embed are known to embed texts"
            raise Refused(f"{model!r} gives no embeddings that are understood here; {told}")
        vectors: list[Any] = []
        read = 0
        for request in requests:
            found, count = await client.invoked(model, request)
            vectors += found
            read += count
        data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        return {"data": data, "usage": {"prompt_tokens": read, "total_tokens": read}}

    def refusal_in(self, error: Exception) -> ModelRefusal | None:
        return error.refusal if isinstance(error, Answered) else None

    def is_lost(self, error: Exception) -> bool:
        return False  # what sends the requests says so itself


class Bedrock:
    """One endpoint. boto3's client is made with the first request, in a thread, as it reads files for a while."""

    def __init__(self, url: str, region: str, http: httpx2.AsyncClient) -> None:
        self._url = url
        self._region = region
        self._http = http
        self._client: Any = None
        self._making = threading.Lock()
        self._threads = ThreadPoolExecutor(PREPARING_THREADS, thread_name_prefix="bedrock")

    async def prepare(self) -> None:
        """Make boto3's client, unless that was done."""
        if self._client is None:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._made)

    @asynccontextmanager
    async def asked(self, operation: str, request: Mapping[str, Any]) -> AsyncIterator[httpx2.Response]:
        """Ask once, and hand over the answer before its body is read."""
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(self._threads, partial(self._prepared, operation, request))
        headers = [(name, value.decode() if isinstance(value, bytes) else str(value)) for name, value in made.headers.items()]
        sent = self._http.build_request(made.method, made.url, headers=headers, content=made.body or b"")
        response = await self._http.send(sent, stream=True)
        try:
            if response.status_code >= 300:
                raise Answered(await _refusal(response))
            yield response
        finally:
            await response.aclose()

    async def invoked(self, model: str, body: Mapping[str, Any]) -> tuple[list[Any], int]:
        """Vectors of a model's own answer, and the tokens that it read."""
        request = {"modelId": model, "body": json.dumps(body), "contentType": "application/json", "accept": "application/json"}
        async with self.asked("invoke_model", request) as response:
            answer = parsed(await response.aread(), response.headers.get("content-type", ""))
            counted = response.headers.get("x-amzn-bedrock-input-token-count", "")
        read = int(counted) if counted.isdecimal() else token_count(answer.get("inputTextTokenCount"))
        if "embedding" in answer:
            return [answer["embedding"]], read
        found = answer.get("embeddings")
        vectors = found.get("float") if isinstance(found, Mapping) else found
        return (list(vectors) if isinstance(vectors, list) else []), read

    def _prepared(self, operation: str, request: Mapping[str, Any]) -> Any:
        """The signed request. In a thread: boto3 may ask somebody for credentials."""
        from botocore import exceptions

        try:
            getattr(self._made(), operation)(**request)
        except _Prepared as prepared:
            return prepared.request
        except exceptions.ParamValidationError as error:
            raise NotSent(shorten(f"Bedrock's Converse takes no such request: {error}", 500)) from None
        except (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.MetadataRetrievalError) as error:
            told = f"{self._url}: no credentials could be had: {type(error).__name__}: {error}"
            raise Unreachable(shorten(told, 300), billed="no") from None
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            told = shorten(f"{self._url}: {error}", 300)
            raise Refused(
                f"{told}; give the worker's environment credentials, as AWS_ACCESS_KEY_ID or AWS_PROFILE do"
            ) from None
        raise AssertionError("boto3 sent a request by itself")

    def _made(self) -> Any:
        with self._making:
            if self._client is None:
                import boto3
                import botocore.session
                from botocore.config import Config

                found = botocore.session.get_session()
                found.register_component("data_loader", _loader())
                session = boto3.session.Session(botocore_session=found)
                config = Config(retries={"mode": "standard", "total_max_attempts": 1})
                client = session.client(SERVICE, endpoint_url=self._url, region_name=self._region, config=config)
                client.meta.events.register_last(f"before-send.{SERVICE}", _hand_out)
                self._client = client
            return self._client


@lru_cache(maxsize=1)
def _loader() -> Any:
    """What reads the descriptions of AWS's services, and keeps them: they take a third of a second."""
    from botocore.loaders import create_loader

    return create_loader()


def _hand_out(request: Any, **_: Any) -> None:
    raise _Prepared(request)


async def _refusal(response: httpx2.Response) -> ModelRefusal:
    """What an error says, by the word for programs that stands in its head, or in its body."""
    body = await response.aread()
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = body.decode("utf-8", "replace")
    said = told.get("message", told.get("Message")) if isinstance(told, Mapping) else None
    label = response.headers.get("x-amzn-errortype") or (told.get("__type") if isinstance(told, Mapping) else None) or ""
    labels = (str(label).partition(":")[0].rpartition("#")[2],)
    if is_page(response.headers.get("content-type", "")) and response.status_code < 400:
        raise Unreachable("the endpoint answered a web page", kind=BROKEN_ANSWER)
    return ModelRefusal(response.status_code, said if isinstance(said, str) else str(told), labels, response.headers)
