"""`ratchet teams`: who works apart from others on the same servers."""

from __future__ import annotations

from typing import Annotated

import typer

from clients.commands.context import Context, command

PANEL = "Operate"
TeamArgument = Annotated[str, typer.Argument(metavar="TEAM", help="Its name.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    teams = typer.Typer(
        name="teams", help="Make and list teams, which see and steer their own runs only.", no_args_is_help=True
    )
    app.add_typer(teams, rich_help_panel=PANEL)

    @command(teams, "create", PANEL)
    def create(
        context: Context,
        team: TeamArgument,
        prompts: Annotated[
            list[str] | None,
            typer.Option("--prompts", metavar="NAMESPACE", help="It has the prompts NAMESPACE/…; again for more."),
        ] = None,
    ) -> int:
        """Make a team, or give one that is there more namespaces of prompts. `ratchet tokens create --team` lets people in."""
        from clients.commands.operations.team_store import create_team
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: create_team(context, team, prompts or []))

    @command(teams, "budget", PANEL)
    def budget(
        context: Context,
        team: TeamArgument,
        cost: Annotated[
            float | None, typer.Option("--cost", help="What its runs may cost in a month.", show_default=False)
        ] = None,
        tokens: Annotated[int | None, typer.Option("--tokens", help="Tokens that they may take.")] = None,
        samples: Annotated[
            int | None, typer.Option("--samples", help="Target calls that they may make.", show_default=False)
        ] = None,
    ) -> int:
        """Say what all runs of a team may spend in a calendar month (UTC). What is left out stays; 0 takes a limit away."""
        from clients.commands.operations.team_store import set_budget
        from clients.runs.interruption import run_async

        given = {"cost": cost, "tokens": tokens, "samples": samples}
        return run_async(context, lambda _: set_budget(context, team, given))

    @command(teams, "show", PANEL)
    def show(context: Context, team: TeamArgument) -> int:
        """Show what is left of a team's month, and what its runs spent in each month so far."""
        from clients.commands.operations.team_store import show_team
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: show_team(context, team))

    @command(teams, "list", PANEL)
    def list_(context: Context) -> int:
        """List the teams: their runs, what is left of their budgets this month, their namespaces of prompts."""
        from clients.commands.operations.team_store import list_teams
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: list_teams(context))
