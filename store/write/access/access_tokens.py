"""Tokens of the HTTP side: made, and revoked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import asyncpg

from store.connection import Database
from store.read.access.access_tokens import AccessToken, Role
from store.read.access.teams import DEFAULT_TEAM
from store.schema import StoreError
from store.write.access.teams import refuse_unknown_team


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that is made; of its secret only hashes."""

    name: str
    role: Role
    token_hash: bytes
    session_hash: bytes
    expires_at: datetime | None
    by: str
    """Who makes it."""
    team: str = DEFAULT_TEAM


class AccessTokens:
    """Tokens by name. At most one of a name is not revoked."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, new: NewToken) -> AccessToken:
        """Keep a new token. Raises StoreError where the name is taken."""
        try:
            async with self._database.transaction() as connection:
                await refuse_unknown_team(connection, new.team)
                row = await connection.fetchrow(
                    "INSERT INTO access_tokens (name, role, token_hash, session_hash, expires_at, created_by, team)"
                    " VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING name, role, team, created_at, created_by, expires_at",
                    new.name,
                    new.role.value,
                    new.token_hash,
                    new.session_hash,
                    new.expires_at,
                    new.by,
                    new.team,
                )
        except asyncpg.UniqueViolationError:
            raise StoreError(f"there is a token {new.name!r} already; revoke it first, or choose another name") from None
        assert row is not None
        return AccessToken(**row)

    async def revoke(self, name: str, by: str) -> bool:
        """End a token at once; whether there was one to end."""
        async with self._database.transaction() as connection:
            revoked = await connection.fetchval(
                "UPDATE access_tokens SET revoked_at = now(), revoked_by = $2 WHERE name = $1 AND revoked_at IS NULL"
                " RETURNING true",
                name,
                by,
            )
            return bool(revoked)
