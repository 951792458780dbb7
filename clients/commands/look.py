"""`ratchet list`, `status`, `watch`: where runs stand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clients.commands.context import Context, command
from clients.commands.run import GateOption, JunitOption, OutputOption, SummaryOption, VerbosityOption
from clients.commands.steer import RunArgument

PANEL = "Watch"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""

    @command(app, "list", PANEL)
    def list_(
        context: Context,
        status: Annotated[
            str | None,
            typer.Option(
                "--status", metavar="STATUS", help="Only running, paused, completed, failed, cancelled or terminated."
            ),
        ] = None,
        limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, the newest first.")] = 50,
    ) -> int:
        """List runs, the newest first."""
        from clients.runs.interruption import run_async
        from clients.runs.views.overview import list_runs

        return run_async(context, lambda _: list_runs(context, status, limit))

    @command(app, "status", PANEL)
    def status(context: Context, run_id: RunArgument) -> int:
        """Show where a run stands."""
        from clients.runs.interruption import run_async
        from clients.runs.views.status import show_status

        return run_async(context, lambda _: show_status(context, run_id))

    @command(app, "watch", PANEL)
    def watch(
        context: Context,
        run_id: RunArgument,
        verbosity: VerbosityOption = "summary",
        output: OutputOption = Path(),
        gate: GateOption = None,
        junit: JunitOption = None,
        summary: SummaryOption = None,
    ) -> int:
        """Attach to a run until it ends; on embedded servers this wakes it.

        On a terminal: rounds, trials in flight, the best, spend, time left, decisions in words. Elsewhere line by line.
        """
        from clients.runs.interruption import run_async
        from clients.runs.views.summary import ending_of
        from clients.runs.watch import watch_run

        ending = ending_of(verbosity, output, gate, junit, summary)
        return run_async(context, lambda interruption: watch_run(context, run_id, ending, interruption))
