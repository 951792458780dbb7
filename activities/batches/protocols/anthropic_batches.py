"""Anthropic's Message Batches: requests go with the batch, and results come down as lines.

A batch carries nothing of ours but its requests, and what they are is told only with their results. So each request's name has
the batch's key in it. A batch of which nobody heard whether it was made is looked for among those that were made in that time,
have as many requests, and are not known to be others. Those that are over tell whose they are; while one is not, nobody can
say, and nothing is sent again.

The vendor's SDK would hold all requests in memory. They are sent as they lie in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from activities.batches.batch_connection import BatchConnection, refusal_in
from activities.batches.protocols import (
    BYTES_PER_SECOND,
    CLOCKS_DIFFER,
    MOST_PAGES,
    SECONDS_TO_SEND,
    BatchSaid,
    BodyForm,
    NoSuchBatch,
    NotRun,
    NotYetKnown,
    SoughtBatch,
    moment_in,
    number_in,
    optional_text_in,
    text_in,
)
from activities.endpoints.model_faults import ModelRefusal
from activities.endpoints.providers.anthropic_messages import answer_of, request_of
from workflows.model.failures import shorten

VERSION: Final = "2023-06-01"
PAGE: Final = 100
KEY_CHARACTERS: Final = 15
"""Of the batch's key, in the name of each request: a name has 64 at most."""

BEGINNING_BYTES: Final = 4096

_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Of errors by their type; a result has no status."""


class AnthropicBatches:
    """Batches of Anthropic's."""

    most_requests = 100_000
    largest_bytes = 100_000_000
    """It takes 256 MB, in one request; what breaks off begins anew."""
    lasts = timedelta(hours=24)

    def base(self, url: str) -> str:
        return f"{url.removesuffix('/v1')}/v1"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}", "anthropic-version": VERSION}  # as its SDK does

    def form(self, batch_key: str) -> BodyForm:
        return BodyForm(b'{"requests":[', b",\n", b"]}")

    def line(self, name: str, batch_key: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        request = {word: value for word, value in request_of(body).items() if word != "stream"}
        return {"custom_id": f"{name}-{batch_key[:KEY_CHARACTERS]}", "params": request}

    def seconds_to_send(self, size: int) -> float:
        return SECONDS_TO_SEND + size / BYTES_PER_SECOND

    async def upload(self, api: BatchConnection, file: Path) -> str:
        return ""

    async def make(self, api: BatchConnection, file: Path, input_file: str, key: str, seconds: float) -> BatchSaid:
        return said_of(await api.sent("/messages/batches", file, seconds))

    async def find(self, api: BatchConnection, sought: SoughtBatch) -> BatchSaid | None:
        found = [one for one in await self._listed(api, sought) if one.requests == sought.requests]
        others = await sought.known([one.provider_id for one in found])
        undecided: list[str] = []
        for one in found:
            if one.provider_id in others:
                continue
            if not one.has_ended:
                undecided.append(one.provider_id)
            elif await self._is_of(api, one.provider_id, sought.key):
                return one
        if undecided:
            named = ", ".join(undecided[:3])
            raise NotYetKnown(f"{api.url}: whether the batch was made is known when {named} has ended")
        return None

    async def _listed(self, api: BatchConnection, sought: SoughtBatch) -> list[BatchSaid]:
        """Those that were made in time. The newest come first."""
        found: list[BatchSaid] = []
        after = ""
        for _ in range(MOST_PAGES):
            page = await api.asked("GET", f"/messages/batches?limit={PAGE}{after}")
            listed = [said_of(one) for one in page.get("data") or [] if isinstance(one, dict)]
            found += [one for one in listed if sought.is_in_time(one.created_at)]
            oldest = min((one.created_at for one in listed), default=0.0)
            if not listed or not page.get("has_more") or oldest < (sought.since - CLOCKS_DIFFER).timestamp():
                break
            after = f"&after_id={quote(listed[-1].provider_id, safe='')}"
        return found

    async def _is_of(self, api: BatchConnection, provider_id: str, batch_key: str) -> bool:
        """Whether a batch that is over is ours, by the name of its first result."""
        try:
            beginning = await api.beginning(_results_of(provider_id), BEGINNING_BYTES)
        except NoSuchBatch:
            return False
        return f'-{batch_key[:KEY_CHARACTERS]}"'.encode() in beginning.partition(b"\n")[0]

    async def look(self, api: BatchConnection, provider_id: str) -> BatchSaid:
        return said_of(await api.asked("GET", f"/messages/batches/{quote(provider_id, safe='')}", looks=True))

    async def cancel(self, api: BatchConnection, provider_id: str) -> None:
        await api.asked("POST", f"/messages/batches/{quote(provider_id, safe='')}/cancel")

    async def download(self, api: BatchConnection, said: BatchSaid, folder: Path) -> list[Path]:
        path = folder / "results.jsonl"
        try:
            await api.copied(_results_of(said.provider_id), path)
        except NoSuchBatch:
            return []
        return [path]

    def refusal(self, status: int, body: bytes, headers: Mapping[str, str]) -> ModelRefusal:
        return refusal_in(status, body, headers)

    def name_in(self, line: Mapping[str, Any]) -> Any:
        return line.get("custom_id")

    def answer_in(self, line: Mapping[str, Any]) -> Mapping[str, Any] | ModelRefusal | NotRun | None:
        result = line.get("result")
        match optional_text_in(result, "type"), result:
            case "succeeded", {"message": Mapping() as message}:
                return answer_of(message)
            case "errored", {"error": Mapping() as told}:
                error = told.get("error") if isinstance(told.get("error"), Mapping) else told
                refusal = refusal_in(500, {"error": error}, {})
                label = optional_text_in(error, "type") or ""
                return ModelRefusal(_STATUSES.get(label, 500), refusal.said, refusal.labels, {})
            case "expired" | "canceled" as kind, _:
                return NotRun(f"batch {'cancelled' if kind == 'canceled' else kind}")
        return NotRun()


def _results_of(provider_id: str) -> str:
    return f"/messages/batches/{quote(provider_id, safe='')}/results"


def said_of(reply: Mapping[str, Any]) -> BatchSaid:
    """A batch as Anthropic describes it. Every request has a line among its results, whatever became of it."""
    counts = reply.get("request_counts")
    done, errored, expired, cancelled, going = (
        int(number_in(counts, name)) for name in ("succeeded", "errored", "expired", "canceled", "processing")
    )
    status = text_in(reply, "processing_status")
    return BatchSaid(
        provider_id=text_in(reply, "id"),
        status=shorten(status, 80),
        standing="answered" if status == "ended" else "going",
        created_at=moment_in(reply, "created_at"),
        finished=done,
        failed=errored + expired + cancelled,
        requests=done + errored + expired + cancelled + going,
    )
