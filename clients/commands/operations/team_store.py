"""Teams, made and listed from the command line of who runs the servers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pydantic

from clients.commands.context import CommandError, Context, ExitCode
from clients.local_audit import audited
from clients.os_user import os_user
from clients.reports.text.terminal_tables import print_table
from clients.runs.service.servers import Servers, has_data, reach_servers
from ratchet._frozen import Payload
from store.read.access.team_months import TeamMonthRow
from store.read.access.teams import Team
from store.schema import StoreError
from store.write.access.teams import Teams
from store.write.limits.team_budgets import TeamBudgets
from workflows.model.run.amounts import RESOURCES, Resource
from workflows.model.spec.team_budget import TeamBudget, TeamBudgetChange

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")
NAMESPACE: Final = re.compile(r"[^/\s\x00-\x1f\x7f]{1,100}")


class TeamMonths(Payload):
    """A team's budget, and what it spent month by month."""

    team: str
    month: TeamMonthRow | None
    """This month's account; nothing where it has no budget."""
    months: tuple[TeamMonthRow, ...]
    """Those in which its spending was counted, the newest first."""


UNITS: Final[Mapping[Resource, str]] = {"samples": "calls", "tokens": "tokens", "cost": "of cost"}


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
        rows = [
            (
                one.team,
                f"{one.runs:,}",
                "" if one.month is None else told_left(one.month),
                ", ".join(f"{name}/…" for name in one.namespaces),
                one.created_by,
            )
            for one in found
        ]
        titles = ("Team", "Runs", "Left this month", "Prompts", "Made by")
        print_table(titles, rows, right=("Runs",), folds=("Left this month", "Prompts", "Made by"))
    return ExitCode.DONE


async def show_team(context: Context, team: str) -> int:
    """What a team may spend in a month, and what it spent in each so far."""
    async with reach_servers(context.home) as servers:
        await _refuse_unknown(servers, team)
        month = await _this_month(servers, team)
        months = await servers.reader.team_months.of_team(team)
    if context.json:
        context.facts(TeamMonths(team=team, month=month, months=tuple(months)).model_dump(mode="json"))
        return ExitCode.DONE
    context.say(_told(team, month))
    if months:
        rows = [(one.month, *(_spent(one, name) for name in RESOURCES)) for one in months]
        print_table(("Month", "Calls", "Tokens", "Cost"), rows, right=("Calls", "Tokens", "Cost"))
    return ExitCode.DONE


async def set_budget(context: Context, team: str, given: Mapping[str, float | None]) -> int:
    """Say what all runs of a team may spend in a month; what is left out stays."""
    changed = _read(given).model_dump(exclude_none=True)
    if not changed:
        raise CommandError("give --cost, --tokens or --samples; 0 takes a limit away")
    async with reach_servers(context.home) as servers:
        await _refuse_unknown(servers, team)
        before = await _this_month(servers, team)
        limits = TeamBudget.model_validate(({} if before is None else before.budget.model_dump()) | changed)
        async with audited(servers.database, f"budget: {told_limits(limits)}", subject=team):
            await TeamBudgets(servers.database).set(team, limits.amount, os_user())
        month = await _this_month(servers, team)
    context.facts({"team": team, "month": None if month is None else month.model_dump(mode="json")}, _told(team, month))
    return ExitCode.DONE


def _read(given: Mapping[str, float | None]) -> TeamBudgetChange:
    try:
        return TeamBudgetChange.model_validate(given)
    except pydantic.ValidationError as error:
        [first, *_] = error.errors()
        raise CommandError(f"--{first['loc'][0]}: {first['msg']}") from None


async def _this_month(servers: Servers, team: str) -> TeamMonthRow | None:
    return next(iter(await servers.reader.team_months.now(team)), None)


def _told(team: str, month: TeamMonthRow | None) -> str:
    return f"{team} has no budget" if month is None else f"{team} has {told_left(month)} left for {month.month}"


def told_limits(limits: TeamBudget) -> str:
    """What may be spent in a month, in words."""
    told = [f"{getattr(limits, name):,} {UNITS[name]}" for name in RESOURCES if getattr(limits, name)]
    return " and ".join(told) or "none"


def told_left(month: TeamMonthRow) -> str:
    """What is left of each limit, in words."""
    limited = [(name, getattr(month.budget, name), getattr(month.left, name)) for name in RESOURCES]
    told = [f"{round(left, 6):,} of {limit:,} {UNITS[name]}" for name, limit, left in limited if limit]
    return " and ".join(told)


def _spent(month: TeamMonthRow, name: Resource) -> str:
    spent, aside = getattr(month.spent, name), getattr(month.set_aside, name)
    shown = "{:,.2f}" if name == "cost" else "{:,}"
    return shown.format(spent) + (f" + {shown.format(aside)} set aside" if aside else "")


async def _refuse_unknown(servers: Servers, team: str) -> None:
    if not await servers.reader.teams.exists(team):
        raise CommandError(f"TEAM: there is no team {team[:100]!r}; `ratchet teams create` makes one")
