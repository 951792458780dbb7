"""`ratchet backup`, `restore`: everything that the store holds, in one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clients.commands.context import Context, command

PANEL = "Operate"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""

    @command(app, "backup", PANEL)
    def backup(
        context: Context,
        file: Annotated[
            Path, typer.Argument(metavar="FILE|DIR", help="A new file, or a directory to write one into.", show_default=False)
        ],
    ) -> int:
        """Write everything that the store holds into one file, as it is at one moment, while runs go on.

        Runs, datasets, files, answers, prompts wherever they are kept, and releases. Temporal's history of open runs is not in
        it.
        """
        from clients.backups.command_steps import make_backup
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: make_backup(context, file))

    @command(app, "restore", PANEL)
    def restore(
        context: Context,
        file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `ratchet backup` wrote.", show_default=False)],
        replay: Annotated[
            int,
            typer.Option("--replay", min=0, metavar="N", help="How many finished runs are gone through again, newest first."),
        ] = 20,
    ) -> int:
        """Bring a backup back into an empty database: all of it, or nothing.

        Then the schema is brought up to date, runs that were open are written down as terminated, and the decisions of
        finished runs are taken again. Exit code 0: no difference; 1: some run decided otherwise than its answers say.
        """
        from clients.backups.command_steps import restore_backup
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: restore_backup(context, file, replay))
