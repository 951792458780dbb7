"""Months of teams over HTTP: what a team may spend in one, what its runs spent, and what is left."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from clients.http.access.callers import CalledBy
from clients.http.backend import NO_CONTROLS, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from store.read.access.team_months import TeamMonthRow
from store.write.limits.team_budgets import TeamBudgets
from workflows.model.spec.team_budget import TeamBudget

router = APIRouter(prefix="/v1/private/teams", tags=["teams"], route_class=JsonRoute)

TeamName = Annotated[str, Path(min_length=1, max_length=50, pattern=NO_CONTROLS, description="The team's name.")]


@router.get("/months", operation_id="listTeamMonths", responses=responses())
async def list_team_months(backend: Served, caller: CalledBy) -> list[TeamMonthRow]:
    """This month of one's team, of an admin's all teams: those that have a budget."""
    return await backend.reader.team_months.now(caller.sees_only)


@router.get("/{team}/months", operation_id="listMonthsOfTeam", responses=responses(404))
async def list_months_of_team(team: TeamName, backend: Served) -> list[TeamMonthRow]:
    """The months of a team in which its spending was counted, the newest first."""
    if not await backend.reader.teams.exists(team):
        raise unknown_team(team)
    return await backend.reader.team_months.of_team(team)


@router.put("/{team}/budget", operation_id="setTeamBudget", responses=responses(404))
async def set_team_budget(team: TeamName, budget: TeamBudget, backend: Served, caller: CalledBy) -> list[TeamMonthRow]:
    """Say what all runs of a team may spend in a month, from now on; with no limit it has no budget. For admins.

    The answer is this month, or nothing without a budget.
    """
    if not await backend.reader.teams.exists(team):
        raise unknown_team(team)
    await TeamBudgets(backend.database).set(team, budget.amount, caller.name)
    return await backend.reader.team_months.now(team)


def unknown_team(team: str) -> Refused:
    """There is no such team, or it is not the caller's."""
    return Refused(404, f"there is no team {team[:100]!r}", "team")
