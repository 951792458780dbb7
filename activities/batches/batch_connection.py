"""Requests to a batch API: who asks, by which key, how patiently, and what goes wrong told apart.

Nothing is sent twice by itself but what may be: a file, a question. Making a batch is tried once, and whoever asks for it looks
for it when nobody heard how that ended.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp

from activities.batches.protocols import BatchProtocol, NoBatchApi, NoSuchBatch
from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.endpoint_policy import (
    GONE,
    NOT_OFFERED,
    KeyMissing,
    ModelPlace,
    NotListed,
    fault_of_connection,
)
from activities.endpoints.model_faults import ModelRefusal, fault_of_refusal
from activities.endpoints.retry_policy import Patience, patiently
from activities.targets.faults import BROKEN_ANSWER, Refused, Unreachable

T = TypeVar("T")

SECONDS_FOR_A_QUESTION: Final = 60.0
SECONDS_OF_SILENCE: Final = 60.0
"""While a file goes up or comes down."""

LOOKS: Final = Patience(seconds=10.0, attempts=2)
"""Whoever looks at a batch looks again, later."""

LARGEST_REPLY_BYTES: Final = 8 * 1024 * 1024
LARGEST_RESULT_BYTES: Final = 8 * 1024 * 1024 * 1024
PIECE_BYTES: Final = 1 << 16


class BatchConnection:
    """One model's batch API."""

    def __init__(
        self,
        protocol: BatchProtocol,
        place: ModelPlace,
        model: str,
        models: ChatModels,
        session: Callable[[], aiohttp.ClientSession],
    ) -> None:
        """`model` is its name in the spec, that of `place` the one that the provider knows."""
        self.protocol = protocol
        self.place = place
        self.model = model
        self.url = place.url
        self._models = models
        self._session = session

    async def patiently(self, once: Callable[[], Coroutine[Any, Any, T]], patience: Patience | None = None) -> T:
        """However often infrastructure has to be tried. What the batch API bears says nothing of what the model does."""
        gate = self._models.gates.at(self.url, "batches")
        return await patiently(gate, once, patience or self._models.patience, CallContext())

    async def asked(self, method: str, path: str, *, looks: bool = False, **sent: Any) -> dict[str, Any]:
        """A reply that is a JSON object, however often infrastructure has to be tried."""
        return await self.patiently(lambda: self.asked_once(method, path, **sent), LOOKS if looks else None)

    async def asked_once(
        self, method: str, path: str, *, seconds: float | None = SECONDS_FOR_A_QUESTION, **sent: Any
    ) -> dict[str, Any]:
        """The same, tried once."""

        async def once() -> dict[str, Any]:
            async with self._response(method, path, seconds=seconds, **sent) as response:
                return parsed(await _body(response, self.url), self.url)

        return await self._told_apart(once)

    async def sent(self, path: str, file: Path, seconds: float) -> dict[str, Any]:
        """The reply to a file that is sent as it is; tried once."""
        with file.open("rb") as body:
            headers = {"Content-Type": "application/json"}
            return await self.asked_once("POST", path, seconds=seconds, data=body, headers=headers)

    async def copied(self, path: str, into: Path) -> None:
        """Copy what is there, piece by piece. Raises NoSuchBatch where it is gone."""

        async def once() -> None:
            with into.open("wb") as results:
                async for piece in self._pieces(path):
                    results.write(piece)

        await self.patiently(lambda: self._told_apart(once))

    async def read(self, path: str, reader: Callable[[], Callable[[bytes], object]], *, looks: bool = False) -> None:
        """Hand what is there to a fresh reader, piece by piece."""

        async def once() -> None:
            read = reader()
            async for piece in self._pieces(path):
                read(piece)

        await self.patiently(lambda: self._told_apart(once), LOOKS if looks else None)

    async def beginning(self, path: str, size: int) -> bytes:
        """The first bytes of what is there."""

        async def once() -> bytes:
            async with self._response("GET", path, seconds=None) as response:
                try:
                    return await response.content.readexactly(size)
                except asyncio.IncompleteReadError as short:
                    return short.partial

        return await self.patiently(lambda: self._told_apart(once))

    # -- one request ------------------------------------------------------------------------------------------------------

    async def _pieces(self, path: str) -> AsyncIterator[bytes]:
        async with self._response("GET", path, seconds=None) as response:
            size = 0
            async for piece in response.content.iter_chunked(PIECE_BYTES):
                size += len(piece)
                if size > LARGEST_RESULT_BYTES:
                    told = f"model {self.model!r} at {self.url}: results of more than {LARGEST_RESULT_BYTES:,} bytes"
                    raise Refused(told)
                yield piece

    def _response(self, method: str, path: str, *, seconds: float | None, **sent: Any) -> _Response:
        try:
            key = self._models.lists.model_key(self.url, self.place.provider)
        except (NotListed, KeyMissing) as error:
            raise Refused(f"model {self.model!r} at {self.url}: {error}") from None
        timeout = aiohttp.ClientTimeout(total=seconds, connect=10.0, sock_read=SECONDS_OF_SILENCE)
        headers = {**self.protocol.headers(key), **sent.pop("headers", {})}
        # Whoever redirects would take the key along to wherever he likes.
        asking = self._session().request(
            method, f"{self.protocol.base(self.url)}{path}", headers=headers, timeout=timeout, allow_redirects=False, **sent
        )
        return _Response(asking, self, key)

    async def _told_apart(self, once: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The same, with what goes wrong on the way as a fault."""
        try:
            return await once()
        except TimeoutError:
            raise Unreachable(f"{self.url}: no answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise fault_of_connection(error, place=self.url) from error


class _Response:
    """A response that is one: what its status means is told apart before anybody reads it."""

    def __init__(self, asking: Any, api: BatchConnection, key: str) -> None:
        self._asking = asking
        self._api = api
        self._key = key

    async def __aenter__(self) -> aiohttp.ClientResponse:
        response: aiohttp.ClientResponse = await self._asking.__aenter__()
        if 200 <= response.status < 300:
            return response
        try:
            body = await response.content.read(PIECE_BYTES)
        finally:
            await self._asking.__aexit__(None, None, None)
        refusal = self._api.protocol.refusal(response.status, body, response.headers)
        fault = fault_of_refusal(refusal, self._api.model, self._api.place, self._key)
        if response.status in GONE:
            raise NoSuchBatch(str(fault))
        raise NoBatchApi(str(fault)) if response.status in NOT_OFFERED else fault

    async def __aexit__(self, *error: object) -> None:
        await self._asking.__aexit__(*error)


async def _body(response: aiohttp.ClientResponse, url: str) -> bytes:
    text = bytearray()
    async for piece in response.content.iter_chunked(PIECE_BYTES):
        text += piece
        if len(text) > LARGEST_REPLY_BYTES:
            raise Unreachable(f"{url}: answered more than {LARGEST_REPLY_BYTES:,} bytes", kind=BROKEN_ANSWER)
    return bytes(text)


def parsed(text: bytes | str, url: str) -> dict[str, Any]:
    """A reply that is a JSON object."""
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        start = text[:80] if isinstance(text, str) else text[:80].decode("utf-8", "replace")
        raise Unreachable(f"{url}: answered something that is not a JSON object: {start!r}", kind=BROKEN_ANSWER)
    return reply


def refusal_in(status: int, body: bytes | Mapping[str, Any], headers: Mapping[str, str]) -> ModelRefusal:
    """What an error says, and by which code and type: as OpenAI and Anthropic write it."""
    try:
        reply = json.loads(body) if isinstance(body, bytes) else body
    except (ValueError, RecursionError):
        reply = None
    error = reply.get("error") if isinstance(reply, Mapping) else None
    if not isinstance(error, Mapping):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else json.dumps(body, default=str)
        return ModelRefusal(status, " ".join(text.split()), (), headers)
    said = error.get("message")
    labels = tuple(label for label in (error.get("code"), error.get("type")) if isinstance(label, str))
    return ModelRefusal(status, " ".join(said.split()) if isinstance(said, str) else "no reason given", labels, headers)
