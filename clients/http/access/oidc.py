"""JWTs of an OpenID Connect issuer, which callers may show instead of tokens: the issuer says who somebody is, and the operator
which of its words is which role.

The signatures are checked by PyJWT. Its keys are fetched where the issuer's discovery document says, kept for a while, and
asked for anew when a JWT names one that is not among them, but not for every such JWT that somebody makes up.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import jwt

from store.read.access.access_tokens import Role

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those with a public key: an issuer's keys are known to everybody, so none of them may be taken for a shared secret."""
PUBLIC: Final = ("RSA", "EC", "OKP")
LEEWAY: Final = 30.0
"""Seconds by which clocks may differ."""
KEYS_LAST: Final = 300.0
ASK_AGAIN_AFTER: Final = 10.0
"""Seconds after which an unknown key is worth another look."""
ANSWERS_WITHIN: Final = 5.0
LARGEST_ANSWER: Final = 1024 * 1024


class NotConvincing(Exception):
    """A JWT that lets nobody in; the message says why, and quotes nothing of it."""


class IssuerAway(ConnectionError):
    """The issuer's keys cannot be had just now."""


@dataclass(frozen=True)
class Identity:
    """Whom a JWT is about."""

    name: str
    role: Role
    team: str | None
    """None where the operator names no claim for it."""


@dataclass(frozen=True)
class OidcIssuer:
    """An issuer, and what its words mean here."""

    url: str
    audience: str
    roles: Mapping[str, Role]
    """By values of the claim of roles."""
    role_claim: str = "roles"
    team_claim: str | None = None
    name_claim: str = "sub"
    keys: IssuerKeys = field(default_factory=lambda: IssuerKeys(), compare=False, repr=False)

    @property
    def place(self) -> str:
        """What is told of it."""
        return urlsplit(self.url).netloc

    async def identity(self, token: str) -> Identity:
        """Whom a JWT is about. Raises NotConvincing, or IssuerAway."""
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise NotConvincing("it is no JWT") from None
        if header.get("alg") not in ALGORITHMS:
            raise NotConvincing("it is signed by a method that is not taken; use one with a public key, such as RS256")
        key = await self.keys.named(self.url, header.get("kid"))
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self.audience,
                issuer=self.url,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise NotConvincing(f"the JWT is not valid here: {_why(error)}") from None
        return Identity(self._name(claims), self._role(claims), self._team(claims))

    def _name(self, claims: Mapping[str, Any]) -> str:
        name = claims.get(self.name_claim)
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable() or name != name.strip():
            raise NotConvincing(f"its claim {self.name_claim!r} is no name")
        return name

    def _role(self, claims: Mapping[str, Any]) -> Role:
        given = claims.get(self.role_claim)
        values = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        found = [self.roles[value] for value in values if isinstance(value, str) and value in self.roles]
        if not found:
            raise NotConvincing(f"nothing in its claim {self.role_claim!r} is a role here; see RATCHET_OIDC_ROLES")
        return max(found, key=list(Role).index)

    def _team(self, claims: Mapping[str, Any]) -> str | None:
        if self.team_claim is None:
            return None
        team = claims.get(self.team_claim)
        if not isinstance(team, str) or not team:
            raise NotConvincing(f"its claim {self.team_claim!r} names no team")
        return team


def _why(error: jwt.PyJWTError) -> str:
    """In words; what a library says may quote the JWT."""
    told: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
        (jwt.ExpiredSignatureError, "it has expired"),
        (jwt.InvalidAudienceError, "it is made out for somebody else"),
        (jwt.InvalidIssuerError, "another issuer made it"),
        (jwt.MissingRequiredClaimError, "a claim of exp, iss, aud and sub is missing"),
        (jwt.ImmatureSignatureError, "its time has not come"),
    )
    return next((words for kind, words in told if isinstance(error, kind)), "its signature or its form is wrong")


class IssuerKeys:
    """The public keys of an issuer, as it publishes them."""

    def __init__(self) -> None:
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = -KEYS_LAST
        self._fetching = asyncio.Lock()

    async def named(self, issuer: str, name: str | None) -> jwt.PyJWK:
        """The key of that name; where a JWT names none, the only one."""
        async with self._fetching:
            age = time.monotonic() - self._fetched_at
            if age >= KEYS_LAST or (self._found(name) is None and age >= ASK_AGAIN_AFTER):
                self._keys = await _published(issuer)
                self._fetched_at = time.monotonic()
            found = self._found(name)
        if found is None:
            raise NotConvincing("the issuer has no such key")
        return found

    def _found(self, name: str | None) -> jwt.PyJWK | None:
        if name is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(name)


async def _published(issuer: str) -> dict[str | None, jwt.PyJWK]:
    timeout = aiohttp.ClientTimeout(total=ANSWERS_WITHIN)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            about = await _json(session, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if about.get("issuer") != issuer:
                raise IssuerAway("its discovery document names another issuer")
            at = str(about.get("jwks_uri", ""))
            if not is_safe(at):
                raise IssuerAway("its discovery document names no address of keys with https")
            keys = jwt.PyJWKSet.from_dict(await _json(session, at)).keys
    except (aiohttp.ClientError, TimeoutError, ValueError, jwt.PyJWTError) as error:
        raise IssuerAway(f"{type(error).__name__}: its keys cannot be read") from None
    return {key.key_id: key for key in keys if key.key_type in PUBLIC and key.public_key_use in (None, "sig")}


async def _json(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    async with session.get(url, allow_redirects=False) as answer:
        answer.raise_for_status()
        content = b""
        async for chunk in answer.content.iter_any():
            content += chunk
            if len(content) > LARGEST_ANSWER:
                raise ValueError("is too large")
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("is no object")
    return found


def is_safe(url: str) -> bool:
    """Whether nobody on the way can change what an address answers: https, or this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"))
