"""Tokens of the HTTP side for tests, made as the command line makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import httpx

from clients.credentials import hash_of, new_token, session_of
from store.connection import Database
from store.read.access.access_tokens import Role
from store.read.access.teams import DEFAULT_TEAM
from store.write.access.access_tokens import AccessTokens, NewToken


async def made_token(
    database: Database, name: str, role: Role, *, expires_at: datetime | None = None, team: str = DEFAULT_TEAM
) -> str:
    """A token's secret. One of that name that another test made is revoked."""
    secret = new_token()
    tokens = AccessTokens(database)
    await tokens.revoke(name, "a test")
    await tokens.create(NewToken(name, role, hash_of(secret), hash_of(session_of(secret)), expires_at, "a test", team))
    return secret


@asynccontextmanager
async def holding(url: str, secret: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that shows a token."""
    headers = {"Authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(base_url=f"{url}/v1/private", headers=headers, timeout=30) as client:
        yield client
