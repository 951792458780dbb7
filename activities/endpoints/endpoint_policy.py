"""Say how endpoints are dealt with, whatever kind they are: what may be called, and what their responses mean.

Models, HTTP targets and runners share these rules, and `ratchet check` applies them before anything is paid: which origins
a worker may call, and which it sends a key; what a status means, how long a Retry-After is, and whether a call was billed.

A spec is written by anybody; what it names is called, read or sent a key only where a list says so. Each list is a variable of
the worker's environment, with commas between its entries. Loopback is a place like any other: whoever listens on this machine
is not its user.

On embedded servers the person at the command line is the operator. `ratchet run SPEC` therefore notes what that spec names in
`allowed.json` of the home, which only its owner can read or write, and the workers of that home obey it like their own
lists. It never says who is sent a key or a token.
"""

from __future__ import annotations

import email.utils
import ipaddress
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from activities.settings import (
    ACTIVITY_QUEUES,
    DEFAULT_ANTHROPIC_URL,
    DEFAULT_GOOGLE_URL,
    DEFAULT_MODEL_URL,
    EVALUATION_QUEUES,
    HTTP_TOKEN,
    HTTP_URLS,
    MCP_SERVERS,
    MODEL_URLS,
    OBJECTS,
    RUNNER_URLS,
    OperatorSettings,
)
from activities.targets.faults import CandidateFault, Fault, Refused, Throttled, Unreachable
from workflows.model.failures import shorten
from workflows.model.spec.extensions.target_options import CalledPlace
from workflows.model.spec.request import OptimizationRequest

NO_KEY: Final = "no-key-for-this-endpoint"
"""What an endpoint on this machine is sent that was never given the key; servers without keys take anything."""

SIGNED_FOR: Final = "signed for "
"""What stands for a key where requests are signed instead, before the region that they are signed for."""

NO_REGION: Final = "us-east-1"
"""The region of AWS where none is stated."""

LONGEST_RETRY_AFTER_SECONDS: Final = 3600.0
"""Whoever asks for more is asked again after this."""

THROTTLING: Final = (429, 503, 529)
"""Statuses of an endpoint that has too much to do. Everybody who calls it goes slower."""

TRANSIENT_BELOW_500: Final = (408, 409, 423, 424, 425)
"""Statuses that are tried again, like those from 500 on."""

FOR_GOOD: Final = (401, 402, 403, 404, 405, 407, 410, 501)
"""Statuses that trying again cannot change, whatever the candidate is."""

KEY_REFUSED: Final = (401, 403)
GONE: Final = (404, 410)
NOT_OFFERED: Final = (405, 501)
"""Statuses of a path that is there for something else, or not at all."""

_PORTS = {"http": 80, "https": 443}
_CODE_HASH = "[0-9a-f]{12}"


OPENAI: Final = "openai"
"""Whoever is asked in OpenAI's protocol."""

BEDROCK: Final = "bedrock"
"""Whose requests are signed with AWS's credentials: no key is sent, and there is an address for each region."""

KEY_NAMES: Final = {
    OPENAI: "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GEMINI_API_KEY",
    BEDROCK: "AWS_ACCESS_KEY_ID (or another of AWS's ways to give credentials)",
}
URL_NAMES: Final = {
    OPENAI: "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    BEDROCK: "AWS_ENDPOINT_URL_BEDROCK_RUNTIME or AWS_REGION",
}
"""By the provider, which is the prefix of its models' names, what its key and its address are called in the environment."""

DEFAULT_URLS: Final = {
    OPENAI: DEFAULT_MODEL_URL,
    "anthropic": DEFAULT_ANTHROPIC_URL,
    "google": DEFAULT_GOOGLE_URL,
    BEDROCK: f"https://bedrock-runtime.{NO_REGION}.amazonaws.com",
}


WITHOUT_EMBEDDINGS: Final = ("anthropic",)
WITHOUT_BATCHES: Final = (BEDROCK,)
UNTAKEN_FILES: Final = {"google": ("image/gif",)}
WITHOUT_SEEDS: Final = ("anthropic", BEDROCK)
WITHOUT_JSON_OF_ANY_SHAPE: Final = ("anthropic", BEDROCK)
ONLY_TEXT_IN_INSTRUCTIONS: Final = ("anthropic", "google", BEDROCK)
"""What providers lack that most have."""

_REGION_IN_URL: Final = re.compile(r"https://bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws|api\.aws)[a-z.]*")


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a model is asked, in whose protocol, and by which name."""

    provider: str
    url: str
    name: str


class NotListed(ValueError):
    """Something that a spec names and no list of the operator does; the message says which list it could be added to."""


class KeyMissing(ValueError):
    """A place that needs a key or a token, which is not set."""


def origin_of(url: str) -> str:
    """The scheme, host and port of a URL, with the scheme's own port left out; empty where it is not the URL of a host."""
    host, port = address_of(url)
    if not host:
        return ""
    scheme = urlsplit(url.strip()).scheme
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}{'' if port == _PORTS[scheme] else f':{port}'}"


def address_of(url: str) -> tuple[str, int]:
    """The host and port that a URL leads to; the host is empty where it is not the URL of one."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port
    except ValueError:
        return "", 0
    if not host or parts.scheme not in _PORTS:
        return "", 0
    return host, _PORTS[parts.scheme] if port is None else port


def is_openais_own(url: str) -> bool:
    """Whether an address is OpenAI's own, or that of one of its regions, and not only one that speaks its protocol."""
    (host, _), (own, _) = address_of(url), address_of(DEFAULT_URLS[OPENAI])
    return host == own or host.endswith(f".{own}")


def region_in(url: str) -> str | None:
    """The region of AWS that an address of Bedrock's names."""
    found = _REGION_IN_URL.fullmatch(url.rstrip("/"))
    return None if found is None else found[1]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on a host."""
    name = host.strip("[]").lower().rstrip(".")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def fault_of_status(
    status: int, said: str, headers: Mapping[str, str], *, place: str, advice: str = "", candidate: str | None = None
) -> Fault:
    """What a response that is no answer means. None of them is billed.

    `advice` is told where trying again cannot help. `candidate` names who refuses a request that the candidate got wrong;
    without it the candidate has no part in the request.
    """
    kind, where = f"http {status}", f"{place}: HTTP {status}: {said}"
    if 300 <= status < 400:
        return Refused(f"{where}; it redirects, and requests do not follow: write the URL it redirects to", kind=kind)
    if status in THROTTLING:
        return Throttled(where, retry_after(headers), kind=kind)
    if status not in FOR_GOOD and (status >= 500 or status in TRANSIENT_BELOW_500):
        return Unreachable(where, kind=kind, billed="no")
    if status in FOR_GOOD or candidate is None:
        return Refused(f"{where}; {advice}" if advice else where, kind=kind)
    return CandidateFault(f"{candidate} refused the request (HTTP {status}): {said}", kind=kind, billed="no")


def fault_of_connection(error: BaseException, *, place: str) -> Unreachable:
    """What an error on the way to an endpoint means. Only a call that was never sent is certainly not billed."""
    why = shorten(f"{place} cannot be reached: {type(error).__name__}: {error}", 300)
    return Unreachable(why, billed="no" if _was_never_sent(error) else "unknown")


def _was_never_sent(error: BaseException) -> bool:
    from aiohttp import ClientConnectorError  # whoever only looks at lists need not load it
    from httpx2 import ConnectError

    return any(isinstance(one, ClientConnectorError | ConnectError | ConnectionRefusedError) for one in causes_of(error))


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from `retry-after-ms`, or from `retry-after` as a number or a date."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * factor
        except ValueError:
            continue
        return min(seconds, LONGEST_RETRY_AFTER_SECONDS) if seconds >= 0 else None
    try:
        moment = email.utils.parsedate_tz(headers.get("retry-after", ""))
        pause = None if moment is None else email.utils.mktime_tz(moment) - time.time()
    except (ValueError, TypeError, IndexError, OverflowError):  # dates of strangers
        return None
    return None if pause is None else min(max(0.0, pause), LONGEST_RETRY_AFTER_SECONDS)


class OperatorLists:
    """The lists of one process. What commands allow is read anew every time, as it may grow meanwhile."""

    def __init__(self, settings: OperatorSettings | None = None, also: Mapping[str, Sequence[str]] | None = None) -> None:
        """Without settings, an operator who lists nothing."""
        self._settings = settings or OperatorSettings()
        self._listed = {
            MODEL_URLS: self._settings.model_urls,
            HTTP_URLS: self._settings.http_urls,
            RUNNER_URLS: self._settings.runner_urls,
            OBJECTS: self._settings.objects,
            ACTIVITY_QUEUES: self._settings.activity_queues,
            EVALUATION_QUEUES: self._settings.evaluation_queues,
        }
        self._also = also or {}
        """What is going to be noted as allowed, by the variable of its list."""

    def model_url(self, given: str | None) -> str:
        """Where a model is asked: at the spec's own `base_url`, else where the operator says."""
        return (given or self._settings.model_url).rstrip("/")

    def model_place(self, model: str, given: str | None) -> ModelPlace:
        """Where a model is asked, and in whose protocol.

        `anthropic/`, `google/` and `openai/` before a model's name are providers where the place is theirs: their own
        address, or one that the operator lists as theirs. Everywhere else such names are the endpoint's own, as gateways and
        servers of open models have them, and are left as they are.
        """
        provider, _, name = model.partition("/")
        if provider not in DEFAULT_URLS or not name:
            return ModelPlace(OPENAI, self.model_url(given), model)
        stated, _ = self._of(provider)
        url = (given or stated or self._default_url(provider)).rstrip("/")
        if given is not None or provider == OPENAI:
            is_theirs = origin_of(url) in {origin_of(self._default_url(provider)), *self._own(provider)}
        else:  # an operator who sends all models elsewhere has to name the provider's address, too
            is_theirs = bool(stated) or origin_of(self._settings.model_url) == origin_of(DEFAULT_MODEL_URL)
        return ModelPlace(provider, url, name) if is_theirs else ModelPlace(OPENAI, self.model_url(given), model)

    def states(self, provider: str) -> bool:
        """Whether the environment says anything of a provider: its address, or its key."""
        stated, key = self._of(provider)
        if provider == BEDROCK:
            return bool(stated or self._region or self.has_bedrock_token)
        return bool(key) or stated not in ("", DEFAULT_URLS[provider])

    def _of(self, provider: str) -> tuple[str, str]:
        """The address and the key that the environment states for a provider."""
        settings = self._settings
        if provider == "anthropic":
            return settings.anthropic_url, settings.anthropic_key
        if provider == "google":
            return settings.google_url, settings.google_key or settings.gemini_key
        if provider == BEDROCK:
            return settings.bedrock_url, f"{SIGNED_FOR}{self._region or NO_REGION}"
        return settings.model_url, settings.model_key

    @property
    def _region(self) -> str:
        return self._settings.aws_region or self._settings.aws_default_region

    def _default_url(self, provider: str) -> str:
        """Where a provider is asked of whose address nothing is stated."""
        region = self._region
        if provider != BEDROCK or not region:
            return DEFAULT_URLS[provider]
        return f"https://bedrock-runtime.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"

    def _own(self, provider: str) -> set[str]:
        """Origins that are a provider's beside its own: the stated one, unless that is any endpoint like OpenAI's, and those
        that the list says are."""
        stated, _ = self._of(provider)
        listed = [entry.partition("=") for entry in self._settings.model_urls]
        theirs = [url for name, _, url in listed if name == provider]
        return {origin_of(url) for url in (*theirs, *([stated] if provider != OPENAI else []))} - {""}

    def model_key(self, url: str, provider: str = OPENAI) -> str:
        """The key that a model endpoint is sent: the real one only where the operator gave it to."""
        stated, key = self._of(provider)
        on_loopback = is_loopback(address_of(url)[0])
        listed = self._settings.model_urls if provider == OPENAI else ()
        theirs = {origin_of(stated or self._default_url(provider)), *map(origin_of, listed), *self._own(provider)}
        if origin_of(url) in theirs - {""}:
            if not key and not on_loopback:
                raise KeyMissing(f"{KEY_NAMES[provider]} is not set in the worker's environment; set it")
            return key or NO_KEY
        if on_loopback:
            return NO_KEY
        raise NotListed(
            f"this worker does not know {url} and will not send its key there; "
            f"its operator can set {URL_NAMES[provider]} to it, or add it to {MODEL_URLS}"
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
        if not self.has_http_token:
            raise KeyMissing(f"{HTTP_TOKEN} is not set in the worker's environment; set it")
        return self._settings.http_token

    @property
    def has_http_token(self) -> bool:
        """Whether there is a token for HTTP targets."""
        return bool(self._settings.http_token)

    @property
    def has_bedrock_token(self) -> bool:
        """Whether Bedrock is asked with a key of its own."""
        return bool(self._settings.bedrock_token)

    def mcp_command(self, server: str) -> Sequence[str]:
        """The command of an MCP server over stdio, which only the operator says."""
        command = dict(self._settings.mcp_servers).get(server)
        if command is None:
            raise NotListed(f"this worker knows no MCP server {server!r}; its operator can add its command to {MCP_SERVERS}")
        return command

    def refuse_runner(self, url: str) -> None:
        """Raise unless a runner's origin may be called."""
        if not self._has_origin(url, RUNNER_URLS, noted=True):
            raise NotListed(f"this worker does not know the runner {origin_of(url)}; its operator can add it to {RUNNER_URLS}")

    def runner_token(self, url: str) -> str | None:
        """The token that a runner is sent, if there is one and the operator's own list names the runner."""
        self.refuse_runner(url)
        token = self._settings.runner_token
        return token if token and self._has_origin(url, RUNNER_URLS, noted=False) else None

    def refuse_object(self, url: str) -> None:
        """Raise unless an object lies under one of the operator's prefixes."""
        if not any(_lies_under(url, place) for place in self._all(OBJECTS)):
            raise NotListed(f"this worker reads no object {url}; its operator can add s3://bucket/prefix to {OBJECTS}")

    def refuse_activity_queue(self, queue: str) -> None:
        """Raise unless a spec may name activities on this task queue."""
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
        entries = self._all(variable) if noted else self._listed[variable]
        return origin_of(url) in {origin_of(entry) for entry in entries} - {""}

    def _all(self, variable: str) -> list[str]:
        return [*self._listed[variable], *self._noted(variable)]

    def _noted(self, variable: str) -> list[str]:
        file = self._settings.allowed_file
        noted = [] if file is None else read_allowed(file).get(variable, [])
        return [*noted, *self._also.get(variable, ())]


def named_by(request: OptimizationRequest) -> dict[str, list[str]]:
    """What a spec names that a list could hold, by the variable of the list."""
    found: dict[str, list[str]] = {}
    queues = sorted({named.task_queue for named in request.own_activities()})
    for place in request.target.called_places():
        found.setdefault(place.listed_in, []).append(origin_of(place.url))
    if queues:
        found[ACTIVITY_QUEUES] = queues
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
