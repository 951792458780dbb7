"""Tokens of the HTTP side, made, listed and revoked from the command line of who runs the servers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from clients.commands.context import CommandError, Context, ExitCode
from clients.credentials import hash_of, new_token, session_of
from clients.local_audit import audited
from clients.os_user import os_user
from clients.reports.text.terminal_tables import print_table
from clients.runs.service.servers import has_data, reach_servers
from store.read.access.access_tokens import AccessToken, Role
from store.read.access.teams import DEFAULT_TEAM
from store.schema import StoreError
from store.write.access.access_tokens import AccessTokens, NewToken
from workflows.model.spec.durations import parse_duration

NAME: Final = re.compile(r"[A-Za-z0-9][\w.@-]{0,99}")
RESERVED: Final = ("anybody", "local", "ratchet")
"""What those are called who show no token."""


async def create_token(context: Context, name: str, role: str, team: str, expires: str | None) -> int:
    """Make a token and tell it once."""
    if not NAME.fullmatch(name) or name in RESERVED:
        told = "use letters, digits, `.`, `_`, `-` and `@`, at most 100, and none of " + ", ".join(RESERVED)
        raise CommandError(f"NAME: {name[:120]!r} is no name of a token; {told}")
    if role not in list(Role):
        raise CommandError(f"--role: {role[:100]!r} is unknown; use {', '.join(one.value for one in Role)}")
    if role == Role.ADMIN and team != DEFAULT_TEAM:
        raise CommandError("--team: an admin sees all teams; leave it out, or give another --role")
    ends = None if expires is None else datetime.now(UTC) + _duration(expires)
    secret = new_token()
    hashes = hash_of(secret), hash_of(session_of(secret))
    new = NewToken(name, Role(role), *hashes, ends, os_user(), team)
    async with reach_servers(context.home) as servers, audited(servers.database, f"create token, {role}", subject=name):
        try:
            made = await AccessTokens(servers.database).create(new)
        except StoreError as error:
            raise CommandError(str(error)) from None
    until = "" if ends is None else f" until {ends.astimezone():%Y-%m-%d %H:%M}"
    told = f"{name}, role {role}{until}. It is shown this once: send it as `Authorization: Bearer …`, or sign in on the page."
    context.facts(made.model_dump(mode="json") | {"token": secret}, f"{secret}\n{told}")
    return ExitCode.DONE


def _duration(text: str) -> timedelta:
    try:
        given = parse_duration(text)
    except ValueError:
        given = timedelta(0)
    if given <= timedelta(0):
        raise CommandError(f"--expires: {text[:100]!r} is no time of at most 365 days; write 12h or 30d")
    return given


async def list_tokens(context: Context) -> int:
    """One line per token."""
    found: list[AccessToken] = []
    if has_data(context.home):
        async with reach_servers(context.home) as servers:
            found = await servers.reader.access_tokens.all()
    now = datetime.now(UTC)
    if context.json:
        context.facts({"tokens": [one.model_dump(mode="json") | {"state": one.state_at(now)} for one in found]})
    elif not found:
        context.say("no tokens but the server's own; `ratchet tokens create NAME --role ROLE` makes one")
    else:
        heads = ("Name", "Role", "Team", "State", "Made", "Ends", "By")
        print_table(heads, [_row(one, now) for one in found], folds=("By",), spare=("Made",))
    return ExitCode.DONE


def _row(token: AccessToken, now: datetime) -> tuple[str, ...]:
    ends = token.revoked_at or token.expires_at
    return (
        token.name,
        token.role.value,
        "all" if token.role is Role.ADMIN else token.team,
        token.state_at(now),
        f"{token.created_at.astimezone():%Y-%m-%d %H:%M}",
        "never" if ends is None else f"{ends.astimezone():%Y-%m-%d %H:%M}",
        token.created_by,
    )


async def revoke_token(context: Context, name: str) -> int:
    """End a token."""
    revoked = False
    if has_data(context.home):
        async with reach_servers(context.home) as servers, audited(servers.database, "revoke token", subject=name):
            revoked = await AccessTokens(servers.database).revoke(name, os_user())
    if not revoked:
        raise CommandError(f"NAME: there is no token {name[:120]!r} to revoke; `ratchet tokens list` shows those there are")
    context.facts({"name": name, "revoked": True}, f"revoked {name}: it lets nobody in any more")
    return ExitCode.DONE
