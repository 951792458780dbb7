"""Model endpoints, looked at before anything is paid for: is there a key, do they answer, do they know the model?"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from activities.endpoints.endpoint_policy import (
    BEDROCK,
    KEY_NAMES,
    KEY_REFUSED,
    OPENAI,
    UNTAKEN_FILES,
    URL_NAMES,
    WITHOUT_EMBEDDINGS,
    KeyMissing,
    ModelPlace,
    NotListed,
    OperatorLists,
    address_of,
    is_loopback,
    named_by,
    origin_of,
)
from activities.preparing.extras import missing_provider
from activities.settings import HTTP_TOKEN, MODEL_URLS
from clients.checks.provider_gaps import values_of
from clients.settings import operator_settings
from ratchet._files import references_in
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.extensions.target_options import CalledPlace
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.check import models_used, stated_model_url

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
    lists = OperatorLists(operator_settings(), also=named_by(request) if own_worker else None)
    places: dict[tuple[str, str], list[tuple[str, ModelPlace]]] = {}
    for where, model in models_used(request):
        if "{{" not in model:
            place = lists.model_place(model, stated_model_url(request, where))
            places.setdefault((place.provider, place.url), []).append((where, place))
    found = await asyncio.gather(*(asyncio.to_thread(_check, models, lists) for models in places.values()))
    elsewhere = await asyncio.to_thread(
        lambda: [*_of_target(request, lists), *_of_embeddings(request, lists), *_of_factor_files(request, lists)]
    )
    return [*elsewhere, *(problem for problems in found for problem in problems)]


def _of_target(request: OptimizationRequest, lists: OperatorLists) -> Iterator[EndpointProblem]:
    """Places that workers may not call, or that do not answer."""
    for place in request.target.called_places():
        if lists.allow(place):
            yield from _silent(place)
        else:
            told = f"{place.where}: workers call only {place.several} their operator named, and {place.url} is none of them"
            yield EndpointProblem(f"{told}; add its origin, {origin_of(place.url)}, to {place.listed_in}", local=True)
        if place.auth != "none" and not lists.has_http_token:
            where = place.where.removesuffix("url")
            yield EndpointProblem(f"{where}auth: is {place.auth}, and {HTTP_TOKEN} is not set; set it", local=True)
    for where, server in request.target.called_servers():
        try:
            lists.mcp_command(server)
        except NotListed as error:
            yield EndpointProblem(f"{where}: {error}", local=True)


def _of_embeddings(request: OptimizationRequest, lists: OperatorLists) -> Iterator[EndpointProblem]:
    """A model that is to embed texts, of a provider that has none for that."""
    for place, scorer in placed_scorers(request.scorers):
        asked = scorer.asked_model
        embeds = asked is not None and asked.parameters is None
        if asked is not None and embeds and lists.model_place(asked.model, asked.base_url).provider in WITHOUT_EMBEDDINGS:
            told = f"{asked.model!r} is of a provider that has no embeddings; name a model of another one"
            yield EndpointProblem(f"{place}.model: {told}", local=False)


def untaken_files(request: OptimizationRequest, lists: OperatorLists) -> tuple[str, ...]:
    """The media types of files that models of the target cannot be sent, although most others can."""
    asked = [(where, model) for where, model in models_used(request) if where.startswith(("target", "configuration"))]
    providers = {lists.model_place(model, stated_model_url(request, where)).provider for where, model in asked}
    return tuple(dict.fromkeys(kind for provider in sorted(providers) for kind in UNTAKEN_FILES.get(provider, ())))


def _of_factor_files(request: OptimizationRequest, lists: OperatorLists) -> Iterator[EndpointProblem]:
    """A factor that is a file, or may be one, of a kind that the target's model cannot be sent."""
    untaken = untaken_files(request, lists)
    for name, factor in request.configuration.items() if untaken else ():
        wrong = next((file for file in references_in(values_of(factor)) if file.media_type in untaken), None)
        if wrong is not None:
            told = f"a file is {wrong.media_type}, which the target's model cannot be sent; give image/png"
            yield EndpointProblem(f"configuration.{name}: {told}", local=False)


def _silent(place: CalledPlace) -> Iterator[EndpointProblem]:
    """A place where nobody listens. It is asked for nothing, and sent no token."""
    host, port = address_of(place.url)
    try:
        socket.create_connection((host, port), SECONDS_TO_ANSWER).close()
    except OSError as error:
        told = f"{place.where}: {place.one} at {host}:{port} cannot be reached: {error}"
        yield EndpointProblem(f"{told}; start it, or correct the URL", local=True)


def _check(models: list[tuple[str, ModelPlace]], lists: OperatorLists) -> list[EndpointProblem]:
    where, asked = models[0]
    try:
        known = _models_there(asked, lists)
    except _Unusable as error:
        return [EndpointProblem(f"{where}: {error}", local=True)]
    return [
        EndpointProblem(f"{place}: {asked.url} does not list a model {model.name!r}; it has {_some(known)}", local=False)
        for place, model in models
        if known and model.name not in known
    ]


async def look_at_providers() -> list[tuple[str, bool, str]]:
    """Of each provider that the environment states: whether its endpoint can be used, with the models that it lists."""
    lists = OperatorLists(operator_settings())
    stated = [name for name in KEY_NAMES if lists.states(name)]
    return await asyncio.gather(*(asyncio.to_thread(_look_at_provider, name, lists) for name in stated))


def _look_at_provider(provider: str, lists: OperatorLists) -> tuple[str, bool, str]:
    place = lists.model_place(f"{provider}/any" if provider != OPENAI else "any", None)
    try:
        known = _models_there(place, lists)
    except _Unusable as error:
        return provider, False, str(error)
    return provider, True, f"{place.url} answers" + (f", with {_some(known)}" if known else "")


def _models_there(asked: ModelPlace, lists: OperatorLists) -> set[str]:
    """The models that an endpoint lists; empty where it lists none, or cannot be asked."""
    url, provider = asked.url, asked.provider
    key_name, url_name = KEY_NAMES[provider], URL_NAMES[provider]
    host, _ = address_of(url)
    if not host:
        raise _Unusable(f"{url!r} is not the URL of a model endpoint; write https://host/v1")
    missing = missing_provider(provider)
    if missing is not None:
        raise _Unusable(f"models {provider}/… need a package; {missing}")
    try:
        key = lists.model_key(url, provider)
    except NotListed:
        told = f"workers send their key only to endpoints their operator named, and {url} is none of them"
        raise _Unusable(f"{told}; set {url_name} to it, or add it to {MODEL_URLS}") from None
    except KeyMissing:
        raise _Unusable(f"{url} needs a key, and {key_name} is not set; set it") from None
    try:
        if provider == BEDROCK:
            _look_at_bedrock(url, lists)
            return set()
        return _listed_models(asked, host, key)
    except _Refused as error:
        raise _Unusable(f"{url} {error}; check {key_name}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        told = f"correct {url_name} (or base_url)"
        raise _Unusable(
            f"{url} cannot be reached: {reason}; {told if provider == BEDROCK else f'start it, or {told}'}"
        ) from None


def _look_at_bedrock(url: str, lists: OperatorLists) -> None:
    """Whether there are credentials, and it listens: more cannot be asked for nothing."""
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    if not lists.has_bedrock_token:
        try:
            found, told = Session().get_credentials() is not None, "there are none"
        except BotoCoreError as error:
            found, told = False, str(error)
        if not found:
            raise _Unusable(f"{url} wants AWS's credentials, and {told}; set {KEY_NAMES[BEDROCK]}")
    socket.create_connection(address_of(url), SECONDS_TO_ANSWER).close()


class _Unusable(Exception):
    """An endpoint cannot be used from here; the message says what to do."""


class _Refused(Exception):
    """The endpoint answers, but not to this key."""


def _listed_models(asked: ModelPlace, host: str, key: str) -> set[str]:
    """The models an endpoint lists; empty when it lists none, which many do not."""
    path, headers = _listing_of(asked, key)
    request = urllib.request.Request(f"{asked.url}{path}", headers={"User-Agent": "ratchet"})  # noqa: S310 (http or https)
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    handlers = [urllib.request.ProxyHandler({})] if is_loopback(host) else []
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=SECONDS_TO_ANSWER) as response:
            listing = json.loads(response.read(LARGEST_LISTING))
    except urllib.error.HTTPError as error:
        if error.code in KEY_REFUSED:
            raise _Refused(f"refuses the key (HTTP {error.code})") from None
        return set()
    except ValueError:
        return set()
    if host.endswith(".azure.com"):
        return set()  # lists models, but is asked for deployments
    if not isinstance(listing, dict) or listing.get("has_more") or listing.get("nextPageToken"):
        return set()  # what is on further pages is not known
    entries = [entry for entry in listing.get("data") or listing.get("models") or [] if isinstance(entry, dict)]
    names = [entry["id"] if "id" in entry else entry.get("name") for entry in entries]
    return {str(name).removeprefix("models/" if asked.provider == "google" else "") for name in names if name}


def _listing_of(asked: ModelPlace, key: str) -> tuple[str, dict[str, str]]:
    """Where a provider lists its models, and the headers that it wants."""
    if asked.provider == OPENAI:
        return "/models", {"Authorization": f"Bearer {key}"}
    version = re.search(r"/v\d\w*$", asked.url)
    if asked.provider == "anthropic":
        path = "/models?limit=1000"
        return path if version else f"/v1{path}", {"Authorization": f"Bearer {key}", "anthropic-version": "2023-06-01"}
    path = "/models?pageSize=1000"
    return path if version else f"/v1beta{path}", {"x-goog-api-key": key}


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
