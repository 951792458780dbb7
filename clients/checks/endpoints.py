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

from activities.endpoints.operator_lists import (
    DEFAULT_MODEL_URL,
    HTTP_TOKEN,
    MODEL_URLS,
    KeyMissing,
    NotListed,
    OperatorLists,
    is_loopback,
    named_by,
    origin_of,
)
from workflows.model.spec.proposers import ModelProposer
from workflows.model.spec.request import OptimizationRequest
from workflows.model.spec.scorer_options import placed_scorers
from workflows.rules.spec.check import models_used

SECONDS_TO_ANSWER = 10.0
LARGEST_LISTING = 8 * 1024 * 1024


@dataclass(frozen=True)
class EndpointProblem:
    """What is wrong with an endpoint, as seen from here."""

    message: str
    local: bool
    """Whether it depends on this process's environment or network, which a worker elsewhere does not share."""


async def check_endpoints(request: OptimizationRequest, *, own_worker: bool = True) -> list[EndpointProblem]:
    """Problems with the endpoints of target, scorers and proposer: a model endpoint is asked for its models, a runner or an
    HTTP target only whether it listens.

    `own_worker` says that whoever asks is the operator of the worker, too: his `ratchet run` allows what his spec names.
    """
    lists = OperatorLists(also=named_by(request) if own_worker else None)
    places: dict[str, list[tuple[str, str]]] = {}
    for where, model in models_used(request):
        if "{{" not in model:
            places.setdefault(_url_for(request, where), []).append((where, model))
    found = await asyncio.gather(*(asyncio.to_thread(_check, url, models) for url, models in places.items()))
    elsewhere = await asyncio.to_thread(lambda: [*_of_target(request, lists)])
    return [*elsewhere, *(problem for problems in found for problem in problems)]


def _of_target(request: OptimizationRequest, lists: OperatorLists) -> Iterator[EndpointProblem]:
    """A place that workers may not call, or that does not answer."""
    place = request.target.called_place
    if place is None:
        return
    if lists.allow(place):
        yield from _silent(place.url, place.one)
    else:
        told = f"target.url: workers call only {place.several} their operator named, and {place.url} is none of them"
        yield EndpointProblem(f"{told}; add its origin, {origin_of(place.url)}, to {place.listed_in}", local=True)
    if place.auth != "none" and not os.environ.get(HTTP_TOKEN, "").strip():
        yield EndpointProblem(f"target.auth: is {place.auth}, and {HTTP_TOKEN} is not set; set it", local=True)


def _silent(url: str, what: str) -> Iterator[EndpointProblem]:
    """A place where nobody listens. It is asked for nothing, and sent no token."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), SECONDS_TO_ANSWER).close()
    except OSError as error:
        told = f"target.url: {what} at {parts.hostname}:{port} cannot be reached: {error}"
        yield EndpointProblem(f"{told}; start it, or correct the URL", local=True)


def _url_for(request: OptimizationRequest, where: str) -> str:
    given: str | None = None
    scorers = {f"{place}.model": scorer for place, scorer in placed_scorers(request.scorers)}
    if where in scorers:
        asked = scorers[where].asked_model
        given = None if asked is None else asked.base_url
    elif where.startswith("optimizer.proposer") and isinstance(request.optimizer.proposer, ModelProposer):
        given = request.optimizer.proposer.base_url
    else:
        given = request.target.model_url
    return (given or os.environ.get("OPENAI_BASE_URL") or DEFAULT_MODEL_URL).rstrip("/")


def _check(url: str, models: list[tuple[str, str]]) -> list[EndpointProblem]:
    where = models[0][0]
    try:
        parts = urlsplit(url)
        host, scheme, _ = parts.hostname or "", parts.scheme, parts.port
    except ValueError:
        host, scheme = "", ""
    if scheme not in ("http", "https") or not host:
        return [EndpointProblem(f"{where}: {url!r} is not the URL of a model endpoint; write https://host/v1", local=True)]
    try:
        key = OperatorLists().model_key(url)
    except NotListed:
        told = f"{where}: workers send their key only to endpoints their operator named, and {url} is none of them"
        return [EndpointProblem(f"{told}; set OPENAI_BASE_URL to it, or add it to {MODEL_URLS}", local=True)]
    except KeyMissing:
        return [EndpointProblem(f"{where}: {url} needs a key, and OPENAI_API_KEY is not set; set it", local=True)]
    try:
        known = _listed_models(url, host, key)
    except _Refused as error:
        return [EndpointProblem(f"{where}: {url} {error}; check OPENAI_API_KEY", local=True)]
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        told = f"{where}: {url} cannot be reached: {reason}; start it, or correct OPENAI_BASE_URL (or base_url)"
        return [EndpointProblem(told, local=True)]
    if not known:
        return []
    return [
        EndpointProblem(f"{place}: {url} does not list a model {model!r}; it has {_some(known)}", local=False)
        for place, model in models
        if model not in known
    ]


class _Refused(Exception):
    """The endpoint answers, but not to this key."""


def _listed_models(url: str, host: str, key: str) -> set[str]:
    """The models an endpoint lists; empty when it lists none, which many do not."""
    request = urllib.request.Request(f"{url}/models", headers={"User-Agent": "ratchet"})  # noqa: S310 (http or https)
    request.add_unredirected_header("Authorization", f"Bearer {key}")
    handlers = [urllib.request.ProxyHandler({})] if is_loopback(host) else []
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
