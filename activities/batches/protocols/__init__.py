"""Batch APIs of providers: who speaks which, one file for each.

A protocol says how requests are put into one body or file, how a batch is made of them, found again, looked at and cancelled,
and what a line of its results is: a chat completion, a refusal, or nothing. When that is done, whose fault a refusal is, what
an answer took and where it goes is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from activities.endpoints.endpoint_policy import OPENAI
from activities.endpoints.model_faults import ModelRefusal
from activities.targets.faults import BROKEN_ANSWER, Refused, Unreachable

if TYPE_CHECKING:
    from activities.batches.batch_connection import BatchConnection

Standing = Literal["going", "answered", "stopped", "refused"]
"""`answered`: all was done, and of what has no line nobody knows what became. `stopped`: what has no line was not begun.
`refused`: nothing was begun."""

CLOCKS_DIFFER: Final = timedelta(minutes=30)
"""At most, between the provider's and ours: so much older batches are looked at when one is looked for."""

MOST_PAGES: Final = 200

NO_ANSWER: Final = "no answer"

SECONDS_TO_SEND: Final = 10.0
"""The longest that making a batch may be on its way. So long after an attempt began to, nothing of it arrives any more."""

BYTES_PER_SECOND: Final = 500_000
"""Where the requests go with it, it may take longer, by so much."""


class NoSuchBatch(Exception):
    """The provider does not know it."""


class NoBatchApi(Refused):
    """Batches cannot be made there: we know no batch API of the provider, or the endpoint has none. Nothing was made."""


class NotYetKnown(Exception):
    """A batch that was sent may be one of several at the provider, which does not say which before they are over."""


@dataclass(frozen=True, slots=True)
class BatchSaid:
    """What a provider says of a batch."""

    provider_id: str
    status: str
    """In its own words."""
    standing: Standing
    created_at: float
    key: str | None = None
    input_file: str | None = None
    files: tuple[str, ...] = ()
    """Of its results, where they are files that have names."""
    finished: int = 0
    failed: int = 0
    requests: int = 0
    error: tuple[str, str] | None = None
    """Why it was not even begun: a code and a message."""
    begins_later: bool = False
    """It was refused for now."""

    @property
    def has_ended(self) -> bool:
        return self.standing != "going"


@dataclass(frozen=True, slots=True)
class SoughtBatch:
    """What is known of a batch of which nobody heard whether it was made."""

    key: str
    requests: int
    input_file: str | None
    since: datetime
    until: datetime | None
    """When the last of it may have arrived; None for now."""
    known: Callable[[Collection[str]], Awaitable[set[str]]]
    """Which of some batches are known to be others."""

    def is_in_time(self, created_at: float) -> bool:
        """Whether a batch was made when this one may have been."""
        begin = (self.since - CLOCKS_DIFFER).timestamp()
        return begin <= created_at and (self.until is None or created_at <= (self.until + CLOCKS_DIFFER).timestamp())


@dataclass(frozen=True, slots=True)
class BodyForm:
    """What stands around requests, and between them, in what is sent."""

    before: bytes = b""
    between: bytes = b"\n"
    after: bytes = b"\n"


@dataclass(frozen=True, slots=True)
class NotRun:
    """A request that was not answered, and why."""

    kind: str = NO_ANSWER


class BatchProtocol(Protocol):
    """The batch API of one provider."""

    most_requests: int
    largest_bytes: int
    lasts: timedelta
    """That a batch takes at most, by the provider's own words."""

    def base(self, url: str) -> str:
        """Return what all paths begin with, at a model's address."""
        ...

    def headers(self, key: str) -> dict[str, str]:
        """Return what every request carries."""
        ...

    def form(self, batch_key: str) -> BodyForm:
        """Return what stands around requests."""
        ...

    def line(self, name: str, batch_key: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put a request for a chat completion as one of a batch. Raises NotSent where that cannot be."""
        ...

    def seconds_to_send(self, size: int) -> float:
        """Return how long making a batch of so many bytes may be on its way."""
        ...

    async def upload(self, api: BatchConnection, file: Path) -> str:
        """Hand requests over before the batch is made, and return their name; empty where they go with it."""
        ...

    async def make(self, api: BatchConnection, file: Path, input_file: str, key: str, seconds: float) -> BatchSaid:
        """Make a batch, within so many seconds. Tried once."""
        ...

    async def find(self, api: BatchConnection, sought: SoughtBatch) -> BatchSaid | None:
        """Return the batch that somebody sent. Raises NotYetKnown."""
        ...

    async def look(self, api: BatchConnection, provider_id: str) -> BatchSaid:
        """Return where a batch stands. Raises NoSuchBatch."""
        ...

    async def cancel(self, api: BatchConnection, provider_id: str) -> None:
        """Ask for the end of a batch."""
        ...

    async def download(self, api: BatchConnection, said: BatchSaid, folder: Path) -> list[Path]:
        """Copy the results into files with a line for each."""
        ...

    def refusal(self, status: int, body: bytes, headers: Mapping[str, str]) -> ModelRefusal:
        """Read what the API said in place of a reply."""
        ...

    def name_in(self, line: Mapping[str, Any]) -> Any:
        """Return what the line of a result says of which request it is."""
        ...

    def answer_in(self, line: Mapping[str, Any]) -> Mapping[str, Any] | ModelRefusal | NotRun | None:
        """Read the line of a result; an answer is given in the form of a chat completion, and None is one that has none."""
        ...


_PROTOCOLS: Final = {
    OPENAI: ("openai_batches", "OpenAiBatches"),
    "anthropic": ("anthropic_batches", "AnthropicBatches"),
    "google": ("gemini_batches", "GeminiBatches"),
}
"""By the provider, the file and the class."""


def protocol_of(provider: str) -> BatchProtocol:
    """Load the batch API of a provider. Raises NoBatchApi where we know none."""
    if provider not in _PROTOCOLS:
        known = ", ".join(_PROTOCOLS)
        told = f"models {provider}/… are not asked in batches, those of {known} are"
        raise NoBatchApi(f"{told}; set execution.mode: direct, or auto")
    module, class_name = _PROTOCOLS[provider]
    found: BatchProtocol = getattr(import_module(f"{__name__}.{module}"), class_name)()
    return found


# -- reading what strangers wrote -----------------------------------------------------------------------------------------


def text_in(reply: Any, name: str) -> str:
    """A short text that has to be there."""
    value = reply.get(name) if isinstance(reply, Mapping) else None
    if not isinstance(value, str) or not 0 < len(value) <= 500 or not value.isprintable():
        raise Unreachable(f"the batch API's answer has no {name}", kind=BROKEN_ANSWER)
    return value


def optional_text_in(reply: Any, name: str) -> str | None:
    value = reply.get(name) if isinstance(reply, Mapping) else None
    return value if isinstance(value, str) and value else None


def number_in(reply: Any, name: str) -> float:
    """A number; 0 where there is none. Google writes whole ones as texts."""
    value = reply.get(name) if isinstance(reply, Mapping) else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 12:
        value = int(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12 else 0.0


def moment_in(reply: Any, name: str) -> float:
    """A moment that has to be there, as RFC 3339 writes it, in seconds."""
    try:
        return datetime.fromisoformat(text_in(reply, name)).timestamp()
    except (ValueError, OverflowError):
        raise Unreachable(f"the batch API's answer has no {name} that is a moment", kind=BROKEN_ANSWER) from None
