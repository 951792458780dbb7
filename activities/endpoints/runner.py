"""External experiment runners over HTTP: where they may be, what they are told, and how their answers are understood."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

import aiohttp

from activities.endpoints.call_context import CallContext
from activities.endpoints.endpoint_policy import (
    GONE,
    KEY_REFUSED,
    NotListed,
    OperatorLists,
    fault_of_connection,
    fault_of_status,
    origin_of,
)
from activities.endpoints.gate import Gates
from activities.endpoints.retry_policy import Patience, patiently
from activities.targets.faults import Refused, Unreachable
from workflows.model.failures import shorten

LONGEST_REQUEST = 60.0
"""Seconds for one request; runners answer at once, and do their work afterwards."""

LARGEST_REPLY = 32 * 1024 * 1024
"""Bytes. Results come in pages, so that none needs to be larger."""

AS_OFTEN_AS_TIME_ALLOWS = 1_000_000
_CHECK_THE_TOKEN = "check RATCHET_RUNNER_TOKEN and RATCHET_RUNNER_URLS in the worker's environment"  # noqa: S105 (words)


class Forgotten(Exception):
    """The runner does not know what it is asked about."""


class Runners:
    """The worker's connections to runners."""

    def __init__(self, gates: Gates, lists: OperatorLists) -> None:
        self._gates = gates
        self._lists = lists
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def trigger(
        self, url: str, body: Mapping[str, Any], key: str, patience: float, headers: Mapping[str, str] | None = None
    ) -> str:
        """Begin an experiment; the same key is the same experiment."""
        sent = {**(headers or {}), "Idempotency-Key": key}
        reply = await self._ask("POST", f"{url}/experiments", patience, body=body, headers=sent)
        experiment_id = reply.get("experiment_id")
        if not isinstance(experiment_id, str) or not 0 < len(experiment_id) <= 500 or not experiment_id.isprintable():
            raise Refused(f"runner {url}: answered a trigger without experiment_id; give a text of 1 to 500 characters")
        return experiment_id

    async def status(self, url: str, experiment_id: str, patience: float) -> dict[str, Any]:
        return await self._ask("GET", _experiment(url, experiment_id), patience)

    async def results(self, url: str, experiment_id: str, cursor: str | None, patience: float) -> dict[str, Any]:
        """One page of results."""
        query = f"?cursor={quote(cursor, safe='')}" if cursor is not None else ""
        return await self._ask("GET", f"{_experiment(url, experiment_id)}/results{query}", patience)

    async def cancel(self, url: str, experiment_id: str, patience: float) -> None:
        await self._ask("POST", f"{_experiment(url, experiment_id)}/cancel", patience, body={})

    async def _ask(
        self,
        method: Literal["GET", "POST"],
        url: str,
        patience: float,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The runner's answer, however often infrastructure has to be tried within the patience."""
        sent = {**(headers or {}), **self._credentials(url)}
        data = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"

        async def once() -> dict[str, Any]:
            try:
                async with asyncio.timeout(LONGEST_REQUEST):
                    return await self._request(method, url, data, sent)
            except TimeoutError:
                raise Unreachable(f"runner {url}: no answer within {LONGEST_REQUEST:g} s") from None
            except (aiohttp.ClientError, OSError) as error:
                raise fault_of_connection(error, place=f"runner {url}") from error

        limits = Patience(seconds=patience, attempts=AS_OFTEN_AS_TIME_ALLOWS)
        return await patiently(self._gates.at(origin_of(url), "runner"), once, limits, CallContext())

    async def _request(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> dict[str, Any]:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=True)
        # A runner that redirects would take the token along to wherever it likes.
        async with self._session.request(method, url, data=data, headers=headers, allow_redirects=False) as response:
            text = bytearray()
            async for chunk in response.content.iter_chunked(1 << 16):
                text += chunk
                if len(text) > LARGEST_REPLY:
                    raise Unreachable(f"runner {url}: answered more than {LARGEST_REPLY:,} bytes; give results in pages (next)")
            _refuse_status(url, response.status, bytes(text), response.headers)
            return _parsed(url, bytes(text))

    def _credentials(self, url: str) -> dict[str, str]:
        """The worker's token, for origins that its operator named. Others are not even called."""
        try:
            token = self._lists.runner_token(url)
        except NotListed as error:
            raise Refused(f"target.url: {error}") from None
        return {"Authorization": f"Bearer {token}"} if token else {}


def _experiment(url: str, experiment_id: str) -> str:
    return f"{url}/experiments/{quote(experiment_id, safe='')}"


def _refuse_status(url: str, status: int, text: bytes, headers: Mapping[str, str]) -> None:
    if 200 <= status < 300:
        return
    said, place = shorten(text.decode("utf-8", "replace").strip(), 300), f"runner {url}"
    if status in GONE:
        raise Forgotten(f"{place}: HTTP {status}: {said}")
    raise fault_of_status(status, said, headers, place=place, advice=_CHECK_THE_TOKEN if status in KEY_REFUSED else "")


def _parsed(url: str, text: bytes) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        start = text[:80].decode("utf-8", "replace")
        raise Unreachable(f"runner {url}: answered something that is not a JSON object: {start!r}")
    return reply
