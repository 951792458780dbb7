"""Say what the operator of a worker lets a spec name: origins, objects, task queues, and who may be sent a key.

A spec is written by anybody; what it names is called, read or sent a key only where a list says so. Each list is a variable of
the worker's environment, with commas between its entries. Loopback is a place like any other: whoever listens on this machine
is not its user.

On embedded servers the person at the command line is the operator. `ratchet run SPEC` therefore notes what that spec names in
`allowed.json` of the home, which only its owner can read or write, and the workers of that home obey it like their own
lists. It never says who is sent a key or a token.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from workflows.model.spec.request import OptimizationRequest
from workflows.model.spec.target_options import CalledPlace

MODEL_URLS: Final = "RATCHET_MODEL_URLS"
HTTP_URLS: Final = "RATCHET_HTTP_URLS"
RUNNER_URLS: Final = "RATCHET_RUNNER_URLS"
OBJECTS: Final = "RATCHET_OBJECTS"
ACTIVITY_QUEUES: Final = "RATCHET_ACTIVITY_QUEUES"
EVALUATION_QUEUES: Final = "RATCHET_EVALUATION_QUEUES"

HTTP_TOKEN: Final = "RATCHET_HTTP_TOKEN"  # noqa: S105 (the name of the variable)
RUNNER_TOKEN: Final = "RATCHET_RUNNER_TOKEN"  # noqa: S105

ALLOWED_FILE: Final = "RATCHET_ALLOWED_FILE"
"""The variable by which commands tell their workers where `allowed.json` is."""

DEFAULT_MODEL_URL: Final = "https://api.openai.com/v1"
NO_KEY: Final = "no-key-for-this-endpoint"
"""What an endpoint on this machine is sent that was never given the key; servers without keys take anything."""

_PORTS = {"http": 80, "https": 443}
_CODE_HASH = "[0-9a-f]{12}"


class NotListed(ValueError):
    """Something that a spec names and no list of the operator does; the message says which list it could be added to."""


class KeyMissing(ValueError):
    """A place that needs a key or a token, which is not set."""


def origin_of(url: str) -> str:
    """The scheme, host and port of a URL, with the scheme's own port left out; empty where it is not the URL of a host."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port
    except ValueError:
        return ""
    if not host or parts.scheme not in _PORTS:
        return ""
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port in (None, _PORTS[parts.scheme]) else f':{port}'}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on a host."""
    name = host.strip("[]").lower().rstrip(".")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class OperatorLists:
    """The lists of one process, read anew every time, as they may grow while it runs."""

    def __init__(self, environment: Mapping[str, str] | None = None, also: Mapping[str, Sequence[str]] | None = None) -> None:
        self._environment = environment if environment is not None else os.environ
        self._also = also or {}
        """What is going to be noted as allowed, by the variable of its list."""

    def model_key(self, url: str) -> str:
        """The key that a model endpoint is sent: the real one only where the operator gave it to."""
        key = self._environment.get("OPENAI_API_KEY", "").strip()
        on_loopback = is_loopback(urlsplit(url).hostname or "")
        own = self._environment.get("OPENAI_BASE_URL", "").strip() or DEFAULT_MODEL_URL
        if origin_of(url) in {origin_of(own), *map(origin_of, self._entries(MODEL_URLS))} - {""}:
            if not key and not on_loopback:
                raise KeyMissing("OPENAI_API_KEY is not set in the worker's environment; set it")
            return key or NO_KEY
        if on_loopback:
            return NO_KEY
        raise NotListed(
            f"this worker does not know {url} and will not send its key there; "
            f"its operator can set OPENAI_BASE_URL to it, or add it to {MODEL_URLS}"
        )

    def allow(self, place: CalledPlace) -> bool:
        """Whether what a target calls may be called, or where it wants the token, be sent that."""
        return self._has_origin(place.url, place.listed_in, noted=place.auth == "none")

    def refuse_http(self, url: str, *, with_token: bool) -> None:
        """Raise unless an HTTP target's origin may be called, or where it wants the token, be sent that."""
        if not self._has_origin(url, HTTP_URLS, noted=not with_token):
            raise NotListed(
                f"this worker does not know {origin_of(url)} and will not call it; its operator can add it to {HTTP_URLS}"
            )

    def http_token(self, url: str) -> str:
        """The token that an HTTP target is sent that wants one."""
        self.refuse_http(url, with_token=True)
        token = self._environment.get(HTTP_TOKEN, "").strip()
        if not token:
            raise KeyMissing(f"{HTTP_TOKEN} is not set in the worker's environment; set it")
        return token

    def refuse_runner(self, url: str) -> None:
        """Raise unless a runner's origin may be called."""
        if not self._has_origin(url, RUNNER_URLS, noted=True):
            raise NotListed(f"this worker does not know the runner {origin_of(url)}; its operator can add it to {RUNNER_URLS}")

    def runner_token(self, url: str) -> str | None:
        """The token that a runner is sent, if there is one and the operator's own list names the runner."""
        self.refuse_runner(url)
        token = self._environment.get(RUNNER_TOKEN, "").strip()
        return token if token and self._has_origin(url, RUNNER_URLS, noted=False) else None

    def refuse_object(self, url: str) -> None:
        """Raise unless an object lies under one of the operator's prefixes."""
        if not any(_lies_under(url, place) for place in self._all(OBJECTS)):
            raise NotListed(f"this worker reads no object {url}; its operator can add s3://bucket/prefix to {OBJECTS}")

    def refuse_activity_queue(self, queue: str) -> None:
        """Raise unless a target may be an activity on this task queue."""
        if not _is_among(queue, self._all(ACTIVITY_QUEUES)):
            raise NotListed(
                f"this worker calls no activities on task queue {queue!r}; its operator can add it to {ACTIVITY_QUEUES}"
            )

    def refuse_evaluation_queue(self, queue: str, own: str, task_queue: str) -> None:
        """Raise unless a run may be evaluated on this task queue. The worker's own one is always allowed, and those on
        which `ratchet run` serves plug-ins, which are named by the hash of their code."""
        if queue == own or re.fullmatch(f"{re.escape(task_queue)}-evaluation(-{_CODE_HASH})?", queue):
            return
        if not _is_among(queue, self._all(EVALUATION_QUEUES)):
            raise NotListed(
                f"this worker has no runs evaluated on task queue {queue!r}; its operator can add it to {EVALUATION_QUEUES}"
            )

    def _has_origin(self, url: str, variable: str, *, noted: bool) -> bool:
        entries = self._all(variable) if noted else self._entries(variable)
        return origin_of(url) in {origin_of(entry) for entry in entries} - {""}

    def _all(self, variable: str) -> list[str]:
        return [*self._entries(variable), *self._noted(variable)]

    def _entries(self, variable: str) -> list[str]:
        return [entry.strip() for entry in self._environment.get(variable, "").split(",") if entry.strip()]

    def _noted(self, variable: str) -> list[str]:
        file = self._environment.get(ALLOWED_FILE, "")
        noted = read_allowed(Path(file)).get(variable, []) if file else []
        return [*noted, *self._also.get(variable, ())]


def named_by(request: OptimizationRequest) -> dict[str, list[str]]:
    """What a spec names that a list could hold, by the variable of the list."""
    found: dict[str, list[str]] = {}
    place, calls = request.target.called_place, request.target.calls(request.execution.sample_timeout)
    if place is not None:
        found[place.listed_in] = [origin_of(place.url)]
    if calls is not None:
        found[ACTIVITY_QUEUES] = [calls.task_queue]
    if request.execution.evaluation_task_queue is not None:
        found[EVALUATION_QUEUES] = [request.execution.evaluation_task_queue]
    return found


def read_allowed(file: Path) -> dict[str, list[str]]:
    """What the commands of a home allowed, by the variable of the list. A file that is not as we write it allows nothing."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    lists = content.items() if isinstance(content, dict) else ()
    return {name: [entry for entry in found if isinstance(entry, str)] for name, found in lists if isinstance(found, list)}


def note_allowed(file: Path, named: Mapping[str, Iterable[str]]) -> None:
    """Add to what a home allows. The file is replaced as a whole, so that a worker never reads half of it."""
    before = read_allowed(file)
    after = {name: sorted({*before.get(name, ()), *named.get(name, ())}) for name in sorted({*before, *named})}
    if after == before:
        return
    draft = file.with_suffix(f".{os.getpid()}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as writing:
        json.dump(after, writing, indent=1)
    draft.replace(file)


def _is_among(queue: str, entries: Iterable[str]) -> bool:
    """An entry is a name, or the beginning of names with `*` behind it."""
    return any(queue.startswith(entry[:-1]) if entry.endswith("*") else queue == entry for entry in entries)


def _lies_under(url: str, place: str) -> bool:
    """Whether an object is a prefix's own, or within it; `s3://data/team` does not hold `s3://data/teams/x`."""
    prefix = place.rstrip("/")
    return prefix.startswith("s3://") and len(prefix) > len("s3://") and (url == prefix or url.startswith(f"{prefix}/"))
