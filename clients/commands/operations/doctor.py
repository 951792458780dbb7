"""`ratchet doctor`."""

from __future__ import annotations

import typer

from clients.commands.context import Context, command


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "doctor", "Operate")
    def doctor(context: Context) -> int:
        """Look at the installation, the servers and the environment; every line says what to do if it is not ok."""
        from clients.checks.installation import diagnose
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: diagnose(context))
