"""Tokens of the HTTP side as they are read: never the secret, which nobody keeps."""

from __future__ import annotations

import hmac
from datetime import datetime
from enum import StrEnum
from typing import Literal

from ratchet._frozen import Payload
from store.connection import Database
from store.read.access.teams import DEFAULT_TEAM

_TOKEN = "name, role, team, created_at, created_by, expires_at, revoked_at, revoked_by"  # noqa: S105 (columns)


class Role(StrEnum):
    """What a token lets its holder do; each role may do what those before it may."""

    READ = "read"
    """Look at everything that is stored."""
    RUN = "run"
    """Start, steer and delete runs, and so spend their budgets."""
    RELEASE = "release"
    """Approve and reject releases, and start runs that release by themselves."""
    ADMIN = "admin"
    """Everything, and whatever no other role is named for."""

    def covers(self, needed: Role) -> bool:
        """Whether who has this role may do what another one is needed for."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


class AccessToken(Payload):
    """What is known of a token."""

    name: str
    role: Role
    team: str = DEFAULT_TEAM
    """Whose runs, prompts and datasets its holder sees; an admin sees all."""
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    def state_at(self, now: datetime) -> Literal["valid", "expired", "revoked"]:
        """Whether it lets anybody in."""
        if self.revoked_at is not None:
            return "revoked"
        return "valid" if self.expires_at is None or now < self.expires_at else "expired"


class AccessTokenReader:
    """Tokens by what is shown of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[AccessToken]:
        """Every token that there ever was, the newest first."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(f"SELECT {_TOKEN} FROM access_tokens ORDER BY number DESC")  # noqa: S608 (constant)
            return [AccessToken(**row) for row in rows]

    async def shown(self, kind: Literal["token", "session"], hashed: bytes) -> AccessToken | None:
        """The token, or the token behind the page's cookie, that has this hash; it may be over."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                f"SELECT {_TOKEN}, {kind}_hash AS hashed FROM access_tokens WHERE {kind}_hash = $1",  # noqa: S608 (one of two)
                hashed,
            )
        if row is None or not hmac.compare_digest(row["hashed"], hashed):
            return None
        return AccessToken(**{name: value for name, value in row.items() if name != "hashed"})
