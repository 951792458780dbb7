"""`ratchet mcp`: runs for agents, over the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from clients.commands.context import CommandError, Context, command
from clients.commands.operations.listen_options import AllowHostOption, HostOption, PortOption
from clients.http import DEFAULT_HOST
from clients.mcp import DEFAULT_PORT

INSTALL = "install ratchet-optimizer[mcp]"


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "mcp", "Operate")
    def mcp(
        context: Context,
        http: Annotated[bool, typer.Option("--http", help="Serve over HTTP instead of stdin and stdout.")] = False,
        host: HostOption = DEFAULT_HOST,
        port: PortOption = DEFAULT_PORT,
        allow_host: AllowHostOption = None,
        allow_steering: Annotated[
            bool, typer.Option("--allow-steering", help="Let agents stop, pause, resume and adjust runs, and propose.")
        ] = False,
        allow_start: Annotated[bool, typer.Option("--allow-start", help="Let agents start runs; needs --budget.")] = False,
        budget: Annotated[
            float | None,
            typer.Option(
                "--budget",
                metavar="COST",
                min=0,
                help="What all runs that agents start here may cost together. Each must have a budget.cost within the rest.",
            ),
        ] = None,
    ) -> int:
        """Serve runs, reports, answers and the spec's schema to agents, over the Model Context Protocol; read-only unless told.

        An agent starts it as `ratchet mcp` and talks over stdin and stdout; with --http it serves several, who show the token.
        """
        if allow_start and not budget:
            raise CommandError("--allow-start: needs --budget COST, what all runs that agents start may cost together")
        if budget is not None and not allow_start:
            raise CommandError("--budget: is for runs that agents start; add --allow-start")
        try:
            from clients.mcp.mcp_server import Allowed, HttpPlace, serve_http, serve_stdio, way_into
        except ModuleNotFoundError as error:
            raise CommandError(f"`ratchet mcp` needs the package {error.name!r}; {INSTALL}") from None
        from clients.runs.interruption import run_async

        allowed = Allowed(allow_steering, budget if allow_start else None)
        if not http:
            return run_async(context, lambda _: serve_stdio(context, allowed), serves=True)
        place = HttpPlace(host, port, tuple(allow_host or ()))
        way_in = way_into(context, place)  # what would be open to everybody is refused before anything is started
        return run_async(context, lambda interruption: serve_http(context, allowed, place, way_in, interruption), serves=True)
