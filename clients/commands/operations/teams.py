"""`ratchet teams`: who works apart from others on the same servers."""

from __future__ import annotations

from typing import Annotated

import typer

from clients.commands.context import Context, command

PANEL = "Operate"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    teams = typer.Typer(
        name="teams", help="Make and list teams, which see and steer their own runs only.", no_args_is_help=True
    )
    app.add_typer(teams, rich_help_panel=PANEL)

    @command(teams, "create", PANEL)
    def create(
        context: Context,
        team: Annotated[str, typer.Argument(metavar="TEAM", help="Its name.", show_default=False)],
        prompts: Annotated[
            list[str] | None,
            typer.Option("--prompts", metavar="NAMESPACE", help="It has the prompts NAMESPACE/…; again for more."),
        ] = None,
    ) -> int:
        """Make a team, or give one that is there more namespaces of prompts. `ratchet tokens create --team` lets people in."""
        from clients.commands.operations.team_store import create_team
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: create_team(context, team, prompts or []))

    @command(teams, "list", PANEL)
    def list_(context: Context) -> int:
        """List the teams with their namespaces of prompts and how many runs they have."""
        from clients.commands.operations.team_store import list_teams
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: list_teams(context))
