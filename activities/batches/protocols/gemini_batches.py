"""Google's batches of Gemini: requests go with the batch, which has our key as its name, and results come in one reply.

The vendor's SDK would hold all requests and results in memory, and rewrites what it knows. They are sent as they lie in the
file, and taken out of the reply one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from activities.batches.batch_connection import BatchConnection, parsed
from activities.batches.protocols import (
    BYTES_PER_SECOND,
    MOST_PAGES,
    SECONDS_TO_SEND,
    BatchSaid,
    BodyForm,
    NoSuchBatch,
    NotRun,
    SoughtBatch,
    Standing,
    number_in,
    optional_text_in,
    text_in,
)
from activities.batches.protocols.inlined_responses import InlinedResponses
from activities.endpoints.endpoint_policy import THROTTLING
from activities.endpoints.model_faults import ModelRefusal
from activities.endpoints.providers.gemini_content import DEFAULT_VERSION, answer_of, refusal_of, request_of
from activities.targets.faults import BROKEN_ANSWER, Unreachable
from workflows.model.failures import shorten

PAGE: Final = 20
"""Small: what a batch answered is listed with it."""

_VERSIONED: Final = re.compile(r".*/v\d\w*")
_BATCH: Final = re.compile(r"batches/[\w-]+")
_STATE: Final = re.compile(r"(?:BATCH|JOB)_STATE_(\w+)")
_STANDINGS: Final[dict[str, Standing]] = {
    "SUCCEEDED": "answered",
    "PARTIALLY_SUCCEEDED": "answered",
    "FAILED": "refused",
    "CANCELLED": "stopped",
    "EXPIRED": "stopped",
}
_CANCELLED, _DEADLINE_EXCEEDED = 1, 4
_STATUSES: Final = {3: 400, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 12: 501, 14: 503, 16: 401}
"""Of errors by their code. Those that are not here are the server's."""

_FIRST_HTTP_STATUS: Final = 100
_FAILED: Final = 500


class GeminiBatches:
    """Batches of Google's."""

    most_requests = 50_000
    largest_bytes = 19_000_000
    """It takes 20 MB, with all that stands around them."""
    lasts = timedelta(hours=48)

    def base(self, url: str) -> str:
        return url if _VERSIONED.fullmatch(url) else f"{url}/{DEFAULT_VERSION}"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def form(self, batch_key: str) -> BodyForm:
        named = f'{{"batch":{{"displayName":{json.dumps(batch_key)},"inputConfig":{{"requests":{{"requests":['
        return BodyForm(named.encode(), b",\n", b"]}}}}")

    def line(self, name: str, batch_key: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"request": request_of(body), "metadata": {"key": name}}

    def seconds_to_send(self, size: int) -> float:
        return SECONDS_TO_SEND + size / BYTES_PER_SECOND

    async def upload(self, api: BatchConnection, file: Path) -> str:
        return ""

    async def make(self, api: BatchConnection, file: Path, input_file: str, key: str, seconds: float) -> BatchSaid:
        model = quote(api.place.name.removeprefix("models/"), safe="")
        return said_of(await api.sent(f"/models/{model}:batchGenerateContent", file, seconds))

    async def find(self, api: BatchConnection, sought: SoughtBatch) -> BatchSaid | None:
        token = ""
        for _ in range(MOST_PAGES):
            page = await _read(api, f"/batches?pageSize={PAGE}{token}", lambda _: None)
            for one in page.get("operations") or []:
                if isinstance(one, Mapping) and _name_of(one) == sought.key:
                    return said_of(one)
            following = optional_text_in(page, "nextPageToken")
            if following is None:
                break
            token = f"&pageToken={quote(following, safe='')}"
        return None

    async def look(self, api: BatchConnection, provider_id: str) -> BatchSaid:
        return said_of(await _read(api, f"/{provider_id}", lambda _: None, looks=True))

    async def cancel(self, api: BatchConnection, provider_id: str) -> None:
        await api.asked("POST", f"/{provider_id}:cancel", json={})

    async def download(self, api: BatchConnection, said: BatchSaid, folder: Path) -> list[Path]:
        path = folder / "results.jsonl"
        try:
            await api.read(f"/{said.provider_id}", lambda: _lines_into(path).read)
        except NoSuchBatch:
            return []
        return [path]

    def refusal(self, status: int, body: bytes, headers: Mapping[str, str]) -> ModelRefusal:
        try:
            told = json.loads(body)
        except (ValueError, RecursionError):
            told = body.decode("utf-8", "replace")
        return refusal_of(status, told, headers)

    def name_in(self, line: Mapping[str, Any]) -> Any:
        return line.get("custom_id")

    def answer_in(self, line: Mapping[str, Any]) -> Mapping[str, Any] | ModelRefusal | NotRun | None:
        match line:
            case {"response": Mapping() as content}:
                return answer_of(content)
            case {"error": Mapping() as error}:
                code = int(number_in(error, "code"))
                if code in (_CANCELLED, _DEADLINE_EXCEEDED):
                    return NotRun("batch cancelled" if code == _CANCELLED else "batch expired")
                return refusal_of(_status_of(code), error, {})
        return NotRun()


async def _read(api: BatchConnection, path: str, take: Callable[[Any], object], *, looks: bool = False) -> dict[str, Any]:
    """A reply without the results in it."""
    reading: list[InlinedResponses] = []

    def fresh() -> Callable[[bytes], None]:
        reading[:] = [InlinedResponses(take)]
        return reading[0].read

    await api.read(path, fresh, looks=looks)
    return parsed(reading[0].rest(), api.url)


def _lines_into(path: Path) -> InlinedResponses:
    """What writes each result into a file, as a line that begins with its request's name."""
    path.write_bytes(b"")
    return InlinedResponses(partial(_write_line, path))


def _write_line(path: Path, result: Any) -> None:
    if not isinstance(result, Mapping):
        return
    given = {name: value for name, value in result.items() if name != "custom_id"}
    line = {"custom_id": optional_text_in(result.get("metadata"), "key"), **given}
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(json.dumps(line) + "\n")


def _status_of(code: int) -> int:
    return code if code >= _FIRST_HTTP_STATUS else _STATUSES.get(code, _FAILED)


def _name_of(operation: Mapping[str, Any]) -> str | None:
    return optional_text_in(operation.get("metadata"), "displayName")


def said_of(operation: Mapping[str, Any]) -> BatchSaid:
    """A batch as Google describes it: an operation."""
    metadata, error = operation.get("metadata"), operation.get("error")
    stats = metadata.get("batchStats") if isinstance(metadata, Mapping) else None
    state = optional_text_in(metadata, "state") or ("DONE" if operation.get("done") else "PENDING")
    found = _STATE.fullmatch(state)
    name = found[1] if found else state
    told, begins_later = None, False
    if isinstance(error, Mapping):
        status = _status_of(int(number_in(error, "code")))
        told = (f"http {status}", shorten(refusal_of(status, error, {}).said, 300))
        begins_later = status >= _FAILED or status in THROTTLING
    standing = _STANDINGS.get(name, "going")
    if standing == "going" and operation.get("done"):
        standing = "answered" if told is None else "refused"
    provider_id = text_in(operation, "name")
    if _BATCH.fullmatch(provider_id) is None:
        raise Unreachable(f"the batch API's answer has no name of a batch: {provider_id[:80]!r}", kind=BROKEN_ANSWER)
    return BatchSaid(
        provider_id=provider_id,
        status=shorten(name.lower(), 80),
        standing=standing,
        created_at=0.0,
        key=_name_of(operation),
        finished=int(number_in(stats, "successfulRequestCount")),
        failed=int(number_in(stats, "failedRequestCount")),
        requests=int(number_in(stats, "requestCount")),
        error=told,
        begins_later=begins_later,
    )
