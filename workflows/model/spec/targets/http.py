"""HTTP targets: any endpoint that takes and gives JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, JsonValue

from ratchet._frozen import SpecPart
from ratchet._values import CanonicalValue, ShortText
from workflows.model.spec.extensions.target_options import CalledPlace, PlacedText, Target, texts_within
from workflows.model.spec.targets.at_most import AtMost

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_SECRET = {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"}
_OURS = {"host", "content-length", "transfer-encoding", "connection"}
_MOST_HEADERS = 50


def _is_endpoint(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    origin = re.split(r"[/?#]", rest, maxsplit=1)[0]
    try:
        parts = urlsplit(f"{scheme}://{origin}")
        valid = separator and scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or "{{" in origin or any(character.isspace() for character in origin):
        raise ValueError("is not the URL of an endpoint; write http(s)://host/path, with placeholders only after the host")
    if "@" in origin:
        raise ValueError("carries credentials; take them out and set RATCHET_HTTP_TOKEN in the worker's environment")
    if "#" in value:
        raise ValueError("has a fragment (#…), which no endpoint ever sees; remove it")
    return value


def _are_headers(value: dict[str, str]) -> dict[str, str]:
    if len(value) > _MOST_HEADERS:
        raise ValueError(f"has {len(value)} headers; at most {_MOST_HEADERS} are sent")
    for name, text in value.items():
        lowered = name.lower()
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a header; use letters, digits and -")
        if lowered in _SECRET:
            raise ValueError(f"{name!r} is for secrets, which no spec holds; use auth, with RATCHET_HTTP_TOKEN on the worker")
        if lowered in _OURS or lowered.startswith("x-ratchet-"):
            raise ValueError(f"{name!r} is set by Ratchet; remove it")
        if not text.isprintable():
            raise ValueError(f"{name!r} has a value with line breaks or control characters; remove them")
    return value


HttpUrl = Annotated[ShortText, AfterValidator(_is_endpoint)]
HttpHeaders = Annotated[dict[str, ShortText], AfterValidator(_are_headers)]


def _input_and_configuration() -> JsonValue:
    return {"input": "{{input}}", "configuration": "{{factors}}"}


Path = Annotated[str, Field(min_length=1, max_length=500)]
"""Keys with dots between them; a number is a place in a list: `choices.0.text`."""


class HttpResponse(SpecPart):
    """Where in the response what is: keys with dots between them, `result.choices.0.text`."""

    output: Path | None = None
    """The answer. Default: the whole response."""
    tokens: Path | None = None
    """A whole number. What the response does not have counts as 0."""
    cost: Path | None = None
    """A number. What the response does not have counts as 0."""
    latency_ms: Path | None = None
    """A number. Default: what the call took."""
    trace: Path | None = None
    """Whatever should be kept to explain the answer."""
    scores: Path | None = None
    """Scores that the endpoint gives itself, by name, for scorers of kind `reported`."""
    error: Path | None = None
    """A text there means that the endpoint failed at this sample, although it answered."""
    overlay_hash: Path | None = None
    """Which configuration was used, where the endpoint says so; another than the one sent fails the sample. Default: the header
    X-Ratchet-Overlay of the response."""


class HttpTarget(Target):
    """Any endpoint that takes and gives JSON.

    Every request says what it is for: `X-Ratchet-Run`, `-Trial`, `-Experiment` (its name), `-Candidate`, `-Overlay`,
    `-Overlay-Hash`, `-Prompt`, `-Parent`, `-Flags` (JSON), `-Sample`, `-Replicate`, `-Seed`.
    """

    answered_by = ".http:HttpAnswers"
    renders_prompts = True

    kind: Literal["http"]
    url: HttpUrl
    """The endpoint, with placeholders after the host if need be. Its origin must be in RATCHET_HTTP_URLS of the
    worker, on the worker's own machine, too; `ratchet run` on embedded servers allows it."""
    method: Literal["POST", "PUT", "PATCH", "GET"] = "POST"
    """GET sends no body."""
    headers: HttpHeaders = Field(default_factory=dict)
    """Further headers, with placeholders. No secrets: those are for `auth`."""
    auth: Literal["none", "bearer", "x-api-key"] = "none"
    """Send RATCHET_HTTP_TOKEN of the worker, as `Authorization: Bearer …` or as `X-API-Key: …`. It only goes to origins in
    RATCHET_HTTP_URLS."""
    body: CanonicalValue = Field(default_factory=_input_and_configuration)
    """What is sent: JSON with placeholders. A text that is nothing but one placeholder becomes the value itself, whatever its
    type; `{{factors}}` is the whole configuration. Default: `{input: "{{input}}", configuration: "{{factors}}"}`."""
    response: HttpResponse = Field(default_factory=HttpResponse)
    """Where in the response what is."""
    at_most: AtMost | None = None
    """What one call takes at most; it makes budgets of tokens and cost hard. Default: 1.5 times the dearest call so far."""
    must_echo: bool = False
    """Whether an answer fails that does not say which configuration was used, in `response.overlay_hash` or its header."""
    version: ShortText | None = None
    """Names the code behind the endpoint; another version is another target, whose answers are not mixed with these."""

    def placed_texts(self) -> Iterator[PlacedText]:
        yield PlacedText("target.url", self.url)
        for name, text in self.headers.items():
            yield PlacedText(f"target.headers.{name}", text)
        if self.method != "GET":
            yield from texts_within("target.body", self.body, of_json=True)

    @property
    def stated(self) -> AtMost | None:
        return self.at_most

    @property
    def demands_echo(self) -> bool:
        return self.must_echo

    def missing_scores(self) -> str | None:
        return None if self.response.scores is not None else "set target.response.scores"

    def called_places(self) -> Iterator[CalledPlace]:
        yield CalledPlace(self.url, "RATCHET_HTTP_URLS", "the endpoint", "HTTP targets", self.auth)
