"""OpenAI's Batch API: a file goes up, a batch is made of it, and files of answers and of errors come down."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import structlog

from activities.batches.batch_connection import BatchConnection, refusal_in
from activities.batches.protocols import (
    CLOCKS_DIFFER,
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
from activities.endpoints.model_faults import ModelRefusal
from activities.targets.faults import BROKEN_ANSWER, Unreachable
from workflows.model.failures import shorten

log = structlog.get_logger("batches")

REQUESTS_TO: Final = "/v1/chat/completions"
WINDOW: Final = "24h"
"""The only one that providers have."""

KEY: Final = "ratchet_batch"
"""Under which name a batch carries its key in the provider's metadata."""

PAGE: Final = 100
_STANDINGS: Final[dict[str, Standing]] = {
    "completed": "answered",
    "failed": "refused",
    "expired": "stopped",
    "cancelled": "stopped",
}
_NEVER_RUN: Final = ("batch_expired", "batch_cancelled")
_TOO_MUCH_AT_ONCE: Final = ("token_limit_exceeded", "rate_limit_exceeded", "request_limit_exceeded", "batch_limit_exceeded")
"""Why a provider does not begin a batch now, and may begin it later."""


class OpenAiBatches:
    """Batches of OpenAI's, and of whoever speaks its protocol."""

    most_requests = 50_000
    largest_bytes = 200_000_000
    lasts = timedelta(hours=24)

    def base(self, url: str) -> str:
        return url

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def form(self, batch_key: str) -> BodyForm:
        return BodyForm()

    def line(self, name: str, batch_key: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"custom_id": name, "method": "POST", "url": REQUESTS_TO, "body": body}

    def seconds_to_send(self, size: int) -> float:
        return SECONDS_TO_SEND

    async def upload(self, api: BatchConnection, file: Path) -> str:
        """Read as it is sent."""

        async def once() -> str:
            with file.open("rb") as requests:
                form = aiohttp.FormData()
                form.add_field("purpose", "batch")
                form.add_field("file", requests, filename="requests.jsonl", content_type="application/jsonl")
                reply = await api.asked_once("POST", "/files", seconds=None, data=form)
            return text_in(reply, "id")

        return await api.patiently(once)

    async def make(self, api: BatchConnection, file: Path, input_file: str, key: str, seconds: float) -> BatchSaid:
        body = {
            "input_file_id": input_file,
            "endpoint": REQUESTS_TO,
            "completion_window": WINDOW,
            "metadata": {KEY: key},
        }
        return said_of(await api.asked_once("POST", "/batches", seconds=seconds, json=body))

    async def find(self, api: BatchConnection, sought: SoughtBatch) -> BatchSaid | None:
        """The batch with this key, or of this file, among those that were made since; the oldest of several."""
        found: BatchSaid | None = None
        after = ""
        for _ in range(MOST_PAGES):
            page = await api.asked("GET", f"/batches?limit={PAGE}{after}")
            listed = [said_of(one) for one in page.get("data") or [] if isinstance(one, dict)]
            for one in listed:
                if one.key == sought.key or (sought.input_file is not None and one.input_file == sought.input_file):
                    found = one
            oldest = min((one.created_at for one in listed), default=0.0)
            if not listed or not page.get("has_more") or oldest < (sought.since - CLOCKS_DIFFER).timestamp():
                break
            after = f"&after={quote(listed[-1].provider_id, safe='')}"
        return found

    async def look(self, api: BatchConnection, provider_id: str) -> BatchSaid:
        return said_of(await api.asked("GET", f"/batches/{quote(provider_id, safe='')}", looks=True))

    async def cancel(self, api: BatchConnection, provider_id: str) -> None:
        await api.asked("POST", f"/batches/{quote(provider_id, safe='')}/cancel", json={})

    async def download(self, api: BatchConnection, said: BatchSaid, folder: Path) -> list[Path]:
        files: list[Path] = []
        for number, file_id in enumerate(said.files):
            path = folder / f"results-{number}.jsonl"
            try:
                await api.copied(f"/files/{quote(file_id, safe='')}/content", path)
            except NoSuchBatch as error:
                log.warning("a batch's results are gone", batch=said.provider_id, file=file_id, error=str(error))
                continue
            files.append(path)
        return files

    def refusal(self, status: int, body: bytes, headers: Mapping[str, str]) -> ModelRefusal:
        return refusal_in(status, body, headers)

    def name_in(self, line: Mapping[str, Any]) -> Any:
        return line.get("custom_id")

    def answer_in(self, line: Mapping[str, Any]) -> Mapping[str, Any] | ModelRefusal | NotRun | None:
        response = line.get("response")
        if not isinstance(response, Mapping):
            code = optional_text_in(line.get("error"), "code")
            return NotRun(code.replace("_", " ")) if code in _NEVER_RUN and code is not None else NotRun()
        status, body = response.get("status_code"), response.get("body")
        if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status < 600:
            raise Unreachable("a result of the batch has no status", kind=BROKEN_ANSWER)
        if not 200 <= status < 300:
            return refusal_in(status, body if isinstance(body, Mapping) else {"error": {"message": str(body)}}, {})
        return body if isinstance(body, Mapping) else None


def said_of(reply: Mapping[str, Any]) -> BatchSaid:
    """A batch as a provider describes it, whoever that is."""
    counts, errors = reply.get("request_counts"), reply.get("errors")
    listed = errors.get("data") if isinstance(errors, Mapping) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    code, status = optional_text_in(first, "code") or "", text_in(reply, "status")
    files = (optional_text_in(reply, "output_file_id"), optional_text_in(reply, "error_file_id"))
    return BatchSaid(
        provider_id=text_in(reply, "id"),
        status=shorten(status, 80),
        standing=_STANDINGS.get(status, "going"),
        created_at=number_in(reply, "created_at"),
        key=optional_text_in(reply.get("metadata"), KEY),
        input_file=optional_text_in(reply, "input_file_id"),
        files=tuple(file for file in files if file is not None),
        finished=int(number_in(counts, "completed")),
        failed=int(number_in(counts, "failed")),
        error=None if first is None else (code, shorten(optional_text_in(first, "message") or "", 300)),
        begins_later=code in _TOO_MUCH_AT_ONCE,
    )
