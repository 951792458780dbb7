"""Who may use the HTTP side: nobody from another site, nobody by another host's name, and nobody without the token, which can
be switched off on loopback only. Everything that leaves carries the headers that keep browsers from being misused."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clients.http.errors import Problem, Problems
from clients.settings import SERVE_TOKEN

SHORTEST_TOKEN = 16
SESSION_COOKIE = "ratchet_session"
LARGEST_BODY = 2 * 1024 * 1024
"""Bytes. A spec with its inline dataset is less than one megabyte."""
MOST_DISCARDED = 8 * LARGEST_BODY

API = "/v1/"
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
        return None if self.token is None else hmac.digest(self.token.encode(), b"ratchet page", hashlib.sha256).hex()

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
        return hmac.compare_digest(_cookie(headers).encode(), (self.session or "").encode())


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what binds to a host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """In front of the application: what does not pass never reaches it."""

    def __init__(self, app: ASGIApp, trust: Trust) -> None:
        self._app = app
        self._trust = trust

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            if refusal[0] == 413:
                await _discard(receive)
            await _answer(refusal, _with_security(send, scope["path"]))
            return
        await self._app(scope, _bounded(receive), _with_security(send, scope["path"]))

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, Problem] | None:
        path, method = scope["path"], scope["method"]
        host = headers.get("host", "")
        if _name_of(host) not in self._trust.hosts:
            told = (
                f"this server does not go by the name {host[:100]!r}; call it by its own, or allow this one with --allow-host"
            )
            return 403, Problem(field="Host", message=told)
        if path.startswith(API) and _is_foreign(headers, host):
            told = f"requests from other sites are refused, and this one comes from {headers.get('origin', 'one')[:100]!r}"
            return 403, Problem(field="Origin", message=told)
        if path.startswith(API) and path not in WITHOUT_TOKEN and not self._trust.admits(headers):
            told = "send the server's token as `Authorization: Bearer …`; it is in the link that the server printed"
            return 401, Problem(field="Authorization", message=told)
        return _refused_body(headers) if method in WRITES else None


def _refused_body(headers: Headers) -> tuple[int, Problem] | None:
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > LARGEST_BODY:
        return 413, Problem(message=f"the body has {int(length):,} bytes; at most {LARGEST_BODY:,} are read")
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


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(SESSION_COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _bounded(receive: Receive) -> Receive:
    """A body that never says its length is read only so far."""
    read = 0

    async def receive_bounded() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > LARGEST_BODY:
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


def _with_security(send: Send, path: str) -> Send:
    async def send_with_security(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if path.startswith(API):
                headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_security


async def _answer(refusal: tuple[int, Problem], send: Send) -> None:
    status, problem = refusal
    body = json.dumps(Problems(error=problem).model_dump(mode="json")).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
