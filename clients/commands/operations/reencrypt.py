"""`ratchet reencrypt`: contents that are stored, brought to the newest key."""

from __future__ import annotations

from typing import Annotated

import typer

from clients.commands.context import CommandError, Context, command

PANEL = "Operate"


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "reencrypt", PANEL)
    def reencrypt(
        context: Context,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Count contents by the key that encrypted them, and change nothing.")
        ] = False,
        retire: Annotated[
            str | None,
            typer.Option(
                "--retire",
                metavar="KEY",
                help="The id of a key that nothing stored needs any more: processes may serve without it from then on.",
            ),
        ] = None,
    ) -> int:
        """Encrypt everything that is stored with the first key, also what was stored before there were keys.

        Workers and servers go on meanwhile. What ends it loses nothing: run it again, and it does the rest. Exit code 0:
        everything has the first key; 1: something has not, and it is told what. Histories in Temporal stay as they are.
        """
        from clients.commands.operations.content_keys import reencrypt_contents, retire_key, show_contents
        from clients.runs.interruption import run_async

        if dry_run and retire is not None:
            raise CommandError("--dry-run and --retire are two things; give one of them")
        if retire is not None:
            return run_async(context, lambda _: retire_key(context, retire))
        return run_async(context, lambda _: show_contents(context) if dry_run else reencrypt_contents(context))
