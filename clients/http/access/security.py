"""Who may use the HTTP side: nobody from another site, nobody by another host's name, and nobody without the token, which can
be switched off on loopback only. Everything that leaves carries the headers that keep browsers from being misused."""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clients.credentials import session_of
from clients.http.errors import Problem, Problems
from clients.settings import SERVE_TOKEN

if TYPE_CHECKING:
    from clients.http.access.oidc import OidcIssuer

SHORTEST_TOKEN = 16
SESSION_COOKIE = "ratchet_session"
LARGEST_BODY = 2 * 1024 * 1024
"""Bytes. A spec with its inline dataset is less than one megabyte."""
MOST_DISCARDED = 8 * LARGEST_BODY

LARGEST_PAYLOADS = 8 * LARGEST_BODY
"""Bytes. Temporal's UI sends the payloads of several events at once, and each may have two megabytes, in base64; and datasets
are sent whole."""

API = "/v1/"
CODEC = "/codec/"
DATASETS = f"{API}private/datasets"
GUARDED = (API, CODEC)
ASKED_BY_THE_UI = ("authorization", "authorization-extras", "content-type", "x-namespace")
"""Headers that Temporal's UI sends along with payloads."""
WITHOUT_TOKEN = ("/v1/private/session",)
WRITES = ("POST", "PUT", "PATCH", "DELETE")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class NotTrustworthy(ValueError):
    """The server would be open to everybody."""


@dataclass(frozen=True)
class Trust:
    """What a request must show."""

    hosts: frozenset[str]
    """Names by which this server may be called, without a port."""
    token: str | None = None
    issuer: OidcIssuer | None = None
    """Whose JWTs are taken beside tokens."""

    @classmethod
    def of(cls, host: str, token: str | None, also: Iterable[str] = ()) -> Trust:
        """Trust for a server that binds to a host; bound beyond loopback it needs a token."""
        token = (token or "").strip() or None
        if token is None and not is_loopback(host):
            raise NotTrustworthy(
                f"--host: {host} can be reached from other machines, so the server needs a token; set {SERVE_TOKEN} to "
                f"at least {SHORTEST_TOKEN} random characters, or leave --host out"
            )
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise NotTrustworthy(f"{SERVE_TOKEN} has {len(token)} characters; use at least {SHORTEST_TOKEN} random ones")
        names = {host, *LOOPBACK_NAMES, *also}
        if not is_loopback(host):
            names |= {socket.gethostname(), socket.getfqdn()}
        return cls(frozenset(name.strip("[]").lower() for name in names), token)

    @property
    def session(self) -> str | None:
        """What the page's cookie holds: it follows from the token, and the token does not follow from it."""
        return None if self.token is None else session_of(self.token)

    def knows_token(self, given: str) -> bool:
        """Whether a token is ours, in a time that says nothing of how much of it was right."""
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def admits(self, headers: Headers) -> bool:
        """Whether a request brings the token, or the cookie that the token was exchanged for."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.knows_token(given.strip())
        return hmac.compare_digest(cookie_of(headers).encode(), (self.session or "").encode())


def origins_of(ui_url: str | None) -> frozenset[str]:
    """The origins that browsers name when Temporal's UI sends something; on loopback, by each of its names."""
    if ui_url is None:
        return frozenset()
    parts = urlsplit(ui_url)
    hosts = LOOPBACK_NAMES if is_loopback(parts.hostname or "") else (parts.hostname or "",)
    port = "" if parts.port is None else f":{parts.port}"
    return frozenset(f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}".lower() for host in hosts)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what binds to a host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


Refusal = tuple[int, Problem]


class Admits(Protocol):
    """Who lets requests in that come from here, under our name."""

    async def refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Why a request is not let in."""
        ...


@dataclass(frozen=True)
class ServerTokenOnly:
    """Lets in who shows the server's own token, and nobody else."""

    trust: Trust

    async def refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Why a request is not let in."""
        if scope["path"] in WITHOUT_TOKEN or self.trust.admits(headers):
            return None
        told = "send the server's token as `Authorization: Bearer …`; it is in the link that the server printed"
        return 401, Problem(field="Authorization", message=told)


class Guard:
    """In front of the application: what does not pass never reaches it."""

    def __init__(
        self, app: ASGIApp, trust: Trust, ui_origins: frozenset[str] = frozenset(), admission: Admits | None = None
    ) -> None:
        self._app = app
        self._trust = trust
        self._ui_origins = ui_origins
        """Of Temporal's UI, which may ask the codec server, and nothing else."""
        self._admission = admission or ServerTokenOnly(trust)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        by_ui = self._is_of_ui(scope, headers)
        send = _with_security(send, scope["path"], headers["origin"] if by_ui else None)
        refusal = await self._refusal(scope, headers, by_ui)
        if refusal is not None:
            if refusal[0] == 413:
                await _discard(receive)
            await answer_refusal(refusal, send)
        elif by_ui and scope["method"] == "OPTIONS":
            await _permit(send)
        else:
            await self._app(scope, _bounded(receive, _largest(scope["path"])), send)

    def _is_of_ui(self, scope: Scope, headers: Headers) -> bool:
        return scope["path"].startswith(CODEC) and headers.get("origin", "").lower() in self._ui_origins

    async def _refusal(self, scope: Scope, headers: Headers, by_ui: bool) -> Refusal | None:
        path, method = scope["path"], scope["method"]
        host = headers.get("host", "")
        if _name_of(host) not in self._trust.hosts:
            told = (
                f"this server does not go by the name {host[:100]!r}; call it by its own, or allow this one with --allow-host"
            )
            return 403, Problem(field="Host", message=told)
        if path.startswith(GUARDED) and not by_ui and _is_foreign(headers, host):
            told = f"requests from other sites are refused, and this one comes from {headers.get('origin', 'one')[:100]!r}"
            return 403, Problem(field="Origin", message=told)
        if by_ui and method == "OPTIONS":  # a browser asks whether it may ask; it sends neither token nor cookie
            return None
        if path.startswith(GUARDED):
            not_admitted = await self._admission.refusal(scope, headers)
            if not_admitted is not None:
                return not_admitted
        return _refused_body(headers, _largest(path)) if method in WRITES else None


def _largest(path: str) -> int:
    return LARGEST_PAYLOADS if path.startswith((CODEC, DATASETS)) else LARGEST_BODY


def _refused_body(headers: Headers, largest: int) -> Refusal | None:
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > largest:
        return 413, Problem(message=f"the body has {int(length):,} bytes; at most {largest:,} are read")
    has_body = length not in ("", "0") or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        return 415, Problem(field="Content-Type", message=f"is {kind or 'not given'}; send application/json")
    return None


def _name_of(host: str) -> str:
    """The host without its port: `[::1]:80` is `::1`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _is_foreign(headers: Headers, host: str) -> bool:
    """Whether a browser sends this on behalf of another site; what is no browser says nothing of where it comes from."""
    origin = headers.get("origin")
    if origin is not None:
        return urlsplit(origin).netloc.lower() != host.lower()
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def cookie_of(headers: Headers) -> str:
    """The page's cookie; empty where there is none."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(SESSION_COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _bounded(receive: Receive, largest: int) -> Receive:
    """A body that never says its length is read only so far."""
    read = 0

    async def receive_bounded() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > largest:
            return {"type": "http.disconnect"}
        return message

    return receive_bounded


async def _discard(receive: Receive) -> None:
    """Read on for a while: a client that is still sending would not see the answer."""
    read = 0
    while read < MOST_DISCARDED:
        message = await receive()
        read += len(message.get("body", b""))
        if not message.get("more_body"):
            return


def _with_security(send: Send, path: str, shared_with: str | None) -> Send:
    async def send_with_security(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if path.startswith(GUARDED):
                headers.setdefault("Cache-Control", "no-store")
            if path.startswith(CODEC):
                headers.add_vary_header("Origin")
            if shared_with is not None:
                headers["Access-Control-Allow-Origin"] = shared_with
                headers["Access-Control-Allow-Credentials"] = "true"
        await send(message)

    return send_with_security


async def _permit(send: Send) -> None:
    """Tell a browser that Temporal's UI may send payloads."""
    headers = [
        (b"access-control-allow-methods", b"POST"),
        (b"access-control-allow-headers", ", ".join(ASKED_BY_THE_UI).encode()),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def answer_refusal(refusal: Refusal, send: Send) -> None:
    """Say why a request is not let in."""
    status, problem = refusal
    body = json.dumps(Problems(error=problem).model_dump(mode="json")).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
