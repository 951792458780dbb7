"""Teams, made and listed from the command line of who runs the servers."""

from __future__ import annotations

import re
from typing import Final

from clients.commands.context import CommandError, Context, ExitCode
from clients.local_audit import audited
from clients.os_user import os_user
from clients.reports.text.terminal_tables import print_table
from clients.runs.service.servers import has_data, reach_servers
from store.read.access.teams import Team
from store.schema import StoreError
from store.write.access.teams import Teams

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")
NAMESPACE: Final = re.compile(r"[^/\s\x00-\x1f\x7f]{1,100}")


async def create_team(context: Context, team: str, namespaces: list[str]) -> int:
    """Make a team, or give one further namespaces."""
    if not NAME.fullmatch(team):
        raise CommandError(f"TEAM: {team[:100]!r} is no name of a team; use lowercase letters, digits, `_` and `-`, at most 50")
    for namespace in namespaces:
        if not NAMESPACE.fullmatch(namespace):
            raise CommandError(f"--prompts: {namespace[:100]!r} is no namespace; of `support/triage` it is `support`")
    async with reach_servers(context.home) as servers, audited(servers.database, "create team", subject=team):
        try:
            created = await Teams(servers.database).create(team, namespaces, os_user())
        except StoreError as error:
            raise CommandError(f"--prompts: {error}") from None
    told = f"{'made' if created else 'there is'} the team {team}"
    told += f", with the prompts {', '.join(f'{one}/…' for one in namespaces)}" if namespaces else ""
    context.facts({"team": team, "created": created, "namespaces": namespaces}, told)
    return ExitCode.DONE


async def list_teams(context: Context) -> int:
    """One line per team."""
    found: list[Team] = []
    if has_data(context.home):
        async with reach_servers(context.home) as servers:
            found = await servers.reader.teams.all()
    if context.json:
        context.facts({"teams": [team.model_dump(mode="json") for team in found]})
    elif not found:
        context.say("nothing is stored here yet")
    else:
        rows = [(one.team, f"{one.runs:,}", ", ".join(f"{name}/…" for name in one.namespaces), one.created_by) for one in found]
        print_table(("Team", "Runs", "Prompts", "Made by"), rows, right=("Runs",), folds=("Prompts", "Made by"))
    return ExitCode.DONE
