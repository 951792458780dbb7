"""Model endpoints, looked at before anything is paid for: is there a key, do they answer, do they know the model?"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from workflows.model.proposers import ModelProposer
from workflows.model.remote_target import ExternalTarget
from workflows.model.request import OptimizationRequest
from workflows.model.scorers import placed_scorers
from workflows.model.target import ChatTarget, HttpTarget
from workflows.rules.spec_check import models_used

DEFAULT_URL = "https://api.openai.com/v1"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
SECONDS_TO_ANSWER = 10.0
LARGEST_LISTING = 8 * 1024 * 1024


@dataclass(frozen=True)
class Problem:
    """What is wrong with an endpoint, as seen from here."""

    message: str
    local: bool
    """Whether it depends on this process's environment or network, which a worker elsewhere does not share."""


async def check_endpoints(request: OptimizationRequest) -> list[Problem]:
    """Problems with the endpoints of target, scorers and proposer: a model endpoint is asked for its models, a runner or an
    HTTP target only whether it listens."""
    places: dict[str, list[tuple[str, str]]] = {}
    for where, model in models_used(request):
        if "{{" not in model:
            places.setdefault(_url_for(request, where), []).append((where, model))
    found = await asyncio.gather(*(asyncio.to_thread(_check, url, models) for url, models in places.items()))
    elsewhere = await asyncio.to_thread(lambda: [*_of_http_target(request), *_of_runner(request)])
    return [*elsewhere, *(problem for problems in found for problem in problems)]


def _of_http_target(request: OptimizationRequest) -> Iterator[Problem]:
    target = request.target
    if not isinstance(target, HttpTarget):
        return
    named = os.environ.get("RATCHET_HTTP_URLS", "").split(",")
    is_named = any(_origin(target.url) == _origin(place.strip()) for place in named if place.strip())
    if not is_named and (target.auth != "none" or urlsplit(target.url).hostname not in LOOPBACK):
        told = f"target.url: workers call only HTTP targets their operator named, and {target.url} is none of them"
        yield Problem(f"{told}; add its origin to RATCHET_HTTP_URLS", local=True)
    else:
        yield from _silent(target.url, "the endpoint")
    if target.auth != "none" and not os.environ.get("RATCHET_HTTP_TOKEN", "").strip():
        yield Problem(f"target.auth: is {target.auth}, and RATCHET_HTTP_TOKEN is not set; set it", local=True)


def _of_runner(request: OptimizationRequest) -> list[Problem]:
    """A runner that workers may not call, or that does not answer."""
    target = request.target
    if not isinstance(target, ExternalTarget):
        return []
    named = [place.strip() for place in os.environ.get("RATCHET_RUNNER_URLS", "").split(",") if place.strip()]
    parts = urlsplit(target.url)
    is_named = any(_origin(target.url) == _origin(place) for place in named)
    if not is_named and parts.hostname not in LOOPBACK:
        told = f"target.url: workers call only runners their operator named, and {target.url} is none of them"
        return [Problem(f"{told}; add its origin, {parts.scheme}://{parts.netloc}, to RATCHET_RUNNER_URLS", local=True)]
    return list(_silent(target.url, "the runner"))


def _silent(url: str, what: str) -> Iterator[Problem]:
    """A place where nobody listens. It is asked for nothing, and sent no token."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), SECONDS_TO_ANSWER).close()
    except OSError as error:
        told = f"target.url: {what} at {parts.hostname}:{port} cannot be reached: {error}"
        yield Problem(f"{told}; start it, or correct the URL", local=True)


def _url_for(request: OptimizationRequest, where: str) -> str:
    given: str | None = None
    scorers = {f"{place}.model": scorer for place, scorer in placed_scorers(request.scorers)}
    if where in scorers:
        given = getattr(scorers[where], "base_url", None)
    elif where.startswith("optimizer.proposer") and isinstance(request.optimizer.proposer, ModelProposer):
        given = request.optimizer.proposer.base_url
    elif isinstance(request.target, ChatTarget):
        given = request.target.base_url
    return (given or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL).rstrip("/")


def _check(url: str, models: list[tuple[str, str]]) -> list[Problem]:
    where = models[0][0]
    try:
        parts = urlsplit(url)
        host, scheme, _ = parts.hostname or "", parts.scheme, parts.port
    except ValueError:
        host, scheme = "", ""
    if scheme not in ("http", "https") or not host:
        return [Problem(f"{where}: {url!r} is not the URL of a model endpoint; write https://host/v1", local=True)]
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if host not in LOOPBACK:
        if not _is_trusted(url):
            return [
                Problem(
                    f"{where}: workers send their key only to endpoints their operator named, and {url} is none of them; "
                    "set OPENAI_BASE_URL to it, or add it to RATCHET_MODEL_URLS",
                    local=True,
                )
            ]
        if not key:
            return [Problem(f"{where}: {url} needs a key, and OPENAI_API_KEY is not set; set it", local=True)]
    try:
        known = _listed_models(url, host, key)
    except _Refused as error:
        return [Problem(f"{where}: {url} {error}; check OPENAI_API_KEY", local=True)]
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        told = f"{where}: {url} cannot be reached: {reason}; start it, or correct OPENAI_BASE_URL (or base_url)"
        return [Problem(told, local=True)]
    if not known:
        return []
    return [
        Problem(f"{place}: {url} does not list a model {model!r}; it has {_some(known)}", local=False)
        for place, model in models
        if model not in known
    ]


def _is_trusted(url: str) -> bool:
    named = [DEFAULT_URL, os.environ.get("OPENAI_BASE_URL", ""), *os.environ.get("RATCHET_MODEL_URLS", "").split(",")]
    return any(_origin(url) == _origin(place.strip()) for place in named if place.strip())


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", None, None


class _Refused(Exception):
    """The endpoint answers, but not to this key."""


def _listed_models(url: str, host: str, key: str) -> set[str]:
    """The models an endpoint lists; empty when it lists none, which many do not."""
    request = urllib.request.Request(f"{url}/models", headers={"User-Agent": "ratchet"})  # noqa: S310 (http or https)
    if key:
        request.add_unredirected_header("Authorization", f"Bearer {key}")
    handlers = [urllib.request.ProxyHandler({})] if host in LOOPBACK else []
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=SECONDS_TO_ANSWER) as response:
            listing = json.loads(response.read(LARGEST_LISTING))
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise _Refused(f"refuses the key (HTTP {error.code})") from None
        return set()
    except ValueError:
        return set()
    entries = listing.get("data") if isinstance(listing, dict) else None
    if host.endswith(".azure.com"):
        return set()  # lists models, but is asked for deployments
    return {str(entry["id"]) for entry in entries or [] if isinstance(entry, dict) and "id" in entry}


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
