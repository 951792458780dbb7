"""Who calls the HTTP side: the holder of the server's own token, of a named one, or anybody where the server asks for none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

from fastapi import Depends, Request
from starlette.datastructures import Headers

from clients.credentials import hash_of
from clients.http.access.security import Trust, cookie_of
from store.read.access.access_tokens import AccessToken, AccessTokenReader, Role
from store.read.access.teams import DEFAULT_TEAM, TeamReader

if TYPE_CHECKING:
    from clients.http.access.oidc import OidcIssuer

CALLER: Final = "ratchet.caller"
"""Where a request's scope keeps it."""
SERVER: Final = "the server's token"
ANYBODY: Final = "anybody"
"""What callers without a name of their own are called."""
RESERVED: Final = (SERVER, ANYBODY, "local", "ratchet")
"""Names that no issuer may give anybody; those of tokens have no blanks, and may not be these either."""


@dataclass(frozen=True)
class HttpCaller:
    """Who asks, and what he may do."""

    name: str
    role: Role
    is_named: bool = False
    """Whether a token says who he is; else he may give any name."""
    team: str = DEFAULT_TEAM
    """Whose the runs are that he starts."""
    issuer: str | None = None
    """Who says who he is, where that is not a token of ours."""

    @property
    def sees_only(self) -> str | None:
        """The team whose runs, prompts and datasets are all that he sees; None where he sees those of all."""
        return None if self.role is Role.ADMIN else self.team

    @property
    def through(self) -> str:
        """How it is known who he is."""
        if self.issuer is not None:
            return f"HTTP, by a JWT of {self.issuer}"
        if self.is_named:
            return f"HTTP, by the token {self.name!r}"
        return "HTTP, by a holder of the server's token" if self.name == SERVER else "HTTP, by anybody on that machine"


class NotAdmitted(Exception):
    """Nobody we know; the message says why."""


class Callers:
    """Knows callers by what their requests show."""

    def __init__(self, trust: Trust, tokens: AccessTokenReader, teams: TeamReader) -> None:
        self._trust = trust
        self._tokens = tokens
        self._teams = teams

    @property
    def asked_for_token(self) -> bool:
        """Whether there is anything to show."""
        return self._trust.token is not None

    async def of(self, headers: Headers) -> HttpCaller:
        """Who sent a request. Raises NotAdmitted."""
        if not self.asked_for_token:
            return HttpCaller(ANYBODY, Role.ADMIN)
        if self._trust.admits(headers):
            return HttpCaller(SERVER, Role.ADMIN)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            issuer, shown = self._trust.issuer, given.strip()
            if issuer is not None and shown.count(".") == 2:
                return await self._vouched_for(issuer, shown)
            return await self._named("token", shown)
        return await self._named("session", cookie_of(headers))

    async def knows(self, token: str) -> bool:
        """Whether a token lets its holder in."""
        if self._trust.knows_token(token):
            return True
        try:
            await self._named("token", token)
        except NotAdmitted:
            return False
        return True

    async def _named(self, kind: Literal["token", "session"], secret: str) -> HttpCaller:
        found = await self._tokens.shown(kind, hash_of(secret)) if secret else None
        if found is None:
            raise NotAdmitted(
                "send a token as `Authorization: Bearer …`: the server's own is in the link that it printed, and an admin "
                "makes others with `ratchet tokens create`"
            )
        _refuse_ended(found)
        return HttpCaller(found.name, found.role, is_named=True, team=found.team)

    async def _vouched_for(self, issuer: OidcIssuer, token: str) -> HttpCaller:
        from clients.http.access.oidc import NotConvincing

        try:
            found = await issuer.identity(token)
        except NotConvincing as error:
            raise NotAdmitted(str(error)) from None
        team = found.team or DEFAULT_TEAM
        if found.name in RESERVED or not await self._teams.exists(team):
            raise NotAdmitted("its team is none of this server, or its name is one that nobody may have")
        return HttpCaller(found.name, found.role, is_named=True, team=team, issuer=issuer.place)


def _refuse_ended(token: AccessToken) -> None:
    state = token.state_at(datetime.now(UTC))
    if state != "valid":
        raise NotAdmitted(f"the token {token.name!r} is {state}; have an admin make another with `ratchet tokens create`")


def caller_of(request: Request) -> HttpCaller:
    """Who sent a request that was let in."""
    caller: HttpCaller = request.scope[CALLER]
    return caller


CalledBy = Annotated[HttpCaller, Depends(caller_of)]
