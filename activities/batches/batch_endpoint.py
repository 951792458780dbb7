"""The batch API of a model's endpoint, in OpenAI's protocol: files go up, a batch is made of one, and files come down.

Nothing here is sent twice by itself but what may be: a file, a question. Making a batch is tried once, and whoever asks for it
looks for it when nobody heard how that ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import aiohttp

from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.endpoint_policy import GONE, KeyMissing, NotListed, fault_of_connection
from activities.endpoints.model_faults import fault_of_model
from activities.endpoints.retry_policy import Patience, patiently
from activities.secret_texts import without_secrets
from activities.targets.faults import BROKEN_ANSWER, CandidateFault, Refused, Unreachable
from workflows.model.failures import shorten

T = TypeVar("T")

REQUESTS_TO: Final = "/v1/chat/completions"
WINDOW: Final = "24h"
"""The only one that providers have."""

KEY: Final = "ratchet_batch"
"""Under which name a batch carries its key in the provider's metadata."""

SECONDS_FOR_A_QUESTION: Final = 60.0
SECONDS_TO_SEND: Final = 10.0
"""The longest that making a batch may be on its way. So long after an attempt began to, nothing of it arrives any more."""

SECONDS_OF_SILENCE: Final = 60.0
"""While a file goes up or comes down."""

LOOKS: Final = Patience(seconds=10.0, attempts=2)
"""Whoever looks at a batch looks again, later."""

LARGEST_REPLY_BYTES: Final = 8 * 1024 * 1024
LARGEST_RESULT_BYTES: Final = 8 * 1024 * 1024 * 1024
PIECE_BYTES: Final = 1 << 16

MOST_PAGES: Final = 200
PAGE: Final = 100
CLOCKS_DIFFER: Final = timedelta(minutes=30)
"""At most, between the provider's and ours: so much older batches are looked at when one is looked for."""

ENDED: Final = ("completed", "failed", "expired", "cancelled")


class NoSuchBatch(Exception):
    """The provider does not know it."""


@dataclass(frozen=True, slots=True)
class BatchSaid:
    """What a provider says of a batch."""

    provider_id: str
    status: str
    key: str | None
    input_file: str | None
    output_file: str | None
    error_file: str | None
    created_at: float
    finished: int
    failed: int
    errors: tuple[tuple[str, str], ...]
    """Why it was not even begun: codes and messages."""

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


class BatchEndpoints:
    """The worker's connections to batch APIs."""

    def __init__(self, models: ChatModels) -> None:
        self._models = models
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def upload(self, url: str, model: str, file: Path) -> str:
        """Hand a file of requests over; its id. Read as it is sent."""

        async def once() -> str:
            with file.open("rb") as requests:
                form = aiohttp.FormData()
                form.add_field("purpose", "batch")
                form.add_field("file", requests, filename="requests.jsonl", content_type="application/jsonl")
                reply = await self._asked("POST", url, "/files", model, seconds=None, data=form)
            return _text(reply, "id")

        with _has_a_batch_api(url, model):
            return await self._patiently(url, once)

    async def make(self, url: str, model: str, input_file: str, key: str) -> BatchSaid:
        """Make a batch of a file. Tried once: who is not told how it ended has to look for it."""
        body = {"input_file_id": input_file, "endpoint": REQUESTS_TO, "completion_window": WINDOW, "metadata": {KEY: key}}
        with _has_a_batch_api(url, model):
            return said_of(await self._asked("POST", url, "/batches", model, seconds=SECONDS_TO_SEND, json=body))

    async def find(self, url: str, model: str, key: str, input_file: str | None, since: datetime) -> BatchSaid | None:
        """The batch with this key, or of this file, among those that were made since; the oldest of several."""
        found: BatchSaid | None = None
        after = ""
        for _ in range(MOST_PAGES):
            path = f"/batches?limit={PAGE}{after}"
            with _has_a_batch_api(url, model):
                page = await self._patiently(url, partial(self._asked, "GET", url, path, model))
            listed = [said_of(one) for one in page.get("data") or [] if isinstance(one, dict)]
            for one in listed:
                if one.key == key or (input_file is not None and one.input_file == input_file):
                    found = one
            oldest = min((one.created_at for one in listed), default=0.0)
            if not listed or not page.get("has_more") or oldest < (since - CLOCKS_DIFFER).timestamp():
                break
            after = f"&after={quote(listed[-1].provider_id, safe='')}"
        return found

    async def look(self, url: str, model: str, provider_id: str) -> BatchSaid:
        """Where a batch stands. Raises NoSuchBatch."""
        path = f"/batches/{quote(provider_id, safe='')}"
        return said_of(await self._patiently(url, partial(self._asked, "GET", url, path, model), LOOKS))

    async def cancel(self, url: str, model: str, provider_id: str) -> None:
        """Ask for the end of a batch. One that has ended meanwhile, or is going to, stays as it is."""
        path = f"/batches/{quote(provider_id, safe='')}/cancel"
        try:
            await self._patiently(url, partial(self._asked, "POST", url, path, model, json={}))
        except CandidateFault:
            return

    async def download(self, url: str, model: str, file_id: str, into: Path) -> None:
        """Copy a file of results, piece by piece. Raises NoSuchBatch where it is gone."""
        path = f"/files/{quote(file_id, safe='')}/content"

        async def once() -> None:
            async with self._response("GET", url, path, model, seconds=None) as response:
                size = 0
                with into.open("wb") as results:
                    async for piece in response.content.iter_chunked(PIECE_BYTES):
                        size += len(piece)
                        if size > LARGEST_RESULT_BYTES:
                            raise Refused(f"model {model!r} at {url}: results of more than {LARGEST_RESULT_BYTES:,} bytes")
                        results.write(piece)

        await self._patiently(url, _told_apart(once, url))

    # -- one request ----------------------------------------------------------------------------------------------------------

    async def _patiently(self, url: str, once: Callable[[], Coroutine[Any, Any, T]], patience: Patience | None = None) -> T:
        """However often infrastructure has to be tried. What the batch API bears says nothing of what the model does."""
        gate = self._models.gates.at(url, "batches")
        return await patiently(gate, once, patience or self._models.patience, CallContext())

    async def _asked(
        self, method: str, url: str, path: str, model: str, *, seconds: float | None = SECONDS_FOR_A_QUESTION, **sent: Any
    ) -> dict[str, Any]:
        async def once() -> dict[str, Any]:
            async with self._response(method, url, path, model, seconds=seconds, **sent) as response:
                return _parsed(await _body(response, url), url)

        return await _told_apart(once, url)()

    def _response(self, method: str, url: str, path: str, model: str, *, seconds: float | None, **sent: Any) -> _Response:
        try:
            key = self._models.lists.model_key(url)
        except (NotListed, KeyMissing) as error:
            raise Refused(f"model {model!r} at {url}: {error}") from None
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=True)
        timeout = aiohttp.ClientTimeout(total=seconds, connect=10.0, sock_read=SECONDS_OF_SILENCE)
        # Whoever redirects would take the key along to wherever he likes.
        asking = self._session.request(
            method,
            f"{url}{path}",
            headers={"Authorization": f"Bearer {key}"},
            timeout=timeout,
            allow_redirects=False,
            **sent,
        )
        return _Response(asking, model, url, key)


@contextmanager
def _has_a_batch_api(url: str, model: str) -> Iterator[None]:
    """What is not there at all, where no batch was asked for by name, is the API itself."""
    try:
        yield
    except NoSuchBatch as error:
        raise Refused(f"model {model!r} at {url}: it has no batch API ({error}); set execution.mode: direct") from None


class _Response:
    """A response that is one: what its status means is told apart before anybody reads it."""

    def __init__(self, asking: Any, model: str, url: str, key: str) -> None:
        self._asking = asking
        self._model = model
        self._url = url
        self._key = key

    async def __aenter__(self) -> aiohttp.ClientResponse:
        response: aiohttp.ClientResponse = await self._asking.__aenter__()
        if 200 <= response.status < 300:
            return response
        try:
            body = await response.content.read(PIECE_BYTES)
        finally:
            await self._asking.__aexit__(None, None, None)
        said, codes = error_in(body)
        told = without_secrets(shorten(said, 500), self._key)
        if response.status in GONE:
            raise NoSuchBatch(told)
        raise fault_of_model(response.status, told, response.headers, codes=codes, model=self._model, url=self._url)

    async def __aexit__(self, *error: object) -> None:
        await self._asking.__aexit__(*error)


def _told_apart(once: Callable[[], Coroutine[Any, Any, T]], url: str) -> Callable[[], Coroutine[Any, Any, T]]:
    """The same, with what goes wrong on the way as a fault."""

    async def told() -> T:
        try:
            return await once()
        except TimeoutError:
            raise Unreachable(f"{url}: no answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise fault_of_connection(error, place=url) from error

    return told


async def _body(response: aiohttp.ClientResponse, url: str) -> bytes:
    text = bytearray()
    async for piece in response.content.iter_chunked(PIECE_BYTES):
        text += piece
        if len(text) > LARGEST_REPLY_BYTES:
            raise Unreachable(f"{url}: answered more than {LARGEST_REPLY_BYTES:,} bytes", kind=BROKEN_ANSWER)
    return bytes(text)


def _parsed(text: bytes, url: str) -> dict[str, Any]:
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        start = text[:80].decode("utf-8", "replace")
        raise Unreachable(f"{url}: answered something that is not a JSON object: {start!r}", kind=BROKEN_ANSWER)
    return reply


def error_in(body: bytes | Mapping[str, Any]) -> tuple[str, tuple[object, ...]]:
    """What an error says, and by which code and type."""
    try:
        reply = json.loads(body) if isinstance(body, bytes) else body
    except (ValueError, RecursionError):
        reply = None
    error = reply.get("error") if isinstance(reply, Mapping) else None
    if not isinstance(error, Mapping):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else json.dumps(body, default=str)
        return " ".join(text.split()), ()
    said = error.get("message")
    return " ".join(said.split()) if isinstance(said, str) else "no reason given", (error.get("code"), error.get("type"))


def said_of(reply: Mapping[str, Any]) -> BatchSaid:
    """A batch as a provider describes it, whoever that is."""
    metadata, counts, errors = reply.get("metadata"), reply.get("request_counts"), reply.get("errors")
    listed = errors.get("data") if isinstance(errors, Mapping) else None
    return BatchSaid(
        provider_id=_text(reply, "id"),
        status=shorten(_text(reply, "status"), 80),
        key=_optional_text(metadata, KEY),
        input_file=_optional_text(reply, "input_file_id"),
        output_file=_optional_text(reply, "output_file_id"),
        error_file=_optional_text(reply, "error_file_id"),
        created_at=_number(reply, "created_at"),
        finished=int(_number(counts, "completed")),
        failed=int(_number(counts, "failed")),
        errors=tuple(
            (_optional_text(one, "code") or "", shorten(_optional_text(one, "message") or "", 300))
            for one in (listed if isinstance(listed, list) else [])[:10]
        ),
    )


def _text(reply: Mapping[str, Any], name: str) -> str:
    value = reply.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 500 or not value.isprintable():
        raise Unreachable(f"the batch API's answer has no {name}", kind=BROKEN_ANSWER)
    return value


def _optional_text(reply: Any, name: str) -> str | None:
    value = reply.get(name) if isinstance(reply, Mapping) else None
    return value if isinstance(value, str) and value else None


def _number(reply: Any, name: str) -> float:
    value = reply.get(name) if isinstance(reply, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12 else 0.0
