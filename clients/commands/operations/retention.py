"""`ratchet retention`, `hold`: what a policy removes of runs that are over, and what it may not."""

from __future__ import annotations

from typing import Annotated

import typer

from clients.commands.context import CommandError, Context, command
from clients.commands.steer import RunArgument

PANEL = "Operate"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""

    @command(app, "retention", PANEL)
    def retention(
        context: Context,
        policy: Annotated[
            str | None,
            typer.Option(
                "--policy",
                metavar="RULES",
                help="What to look at, e.g. texts=30d,answers=180d,runs=730d,size=200GB. [default: RATCHET_RETENTION]",
            ),
        ] = None,
    ) -> int:
        """Show what a policy would remove now, run by run, with answers and bytes. Nothing is removed.

        What `RATCHET_RETENTION` says of the workers that serve workflows is carried out by their cleanup, once an hour.
        """
        from clients.runs.interruption import run_async
        from clients.runs.views.retention_view import show_retention
        from clients.settings import retention_settings
        from workflows.rules.retention_policy import BadRetention, parse_retention

        try:
            asked = retention_settings().policy if policy is None else parse_retention(policy)
        except BadRetention as error:
            raise CommandError(f"--policy: {error}") from None
        return run_async(context, lambda _: show_retention(context, asked))

    @command(app, "hold", PANEL)
    def hold(
        context: Context,
        run_id: RunArgument,
        label: Annotated[str, typer.Option("--label", help="What it is held for; a run may be held for several.")] = "legal",
        reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the hold.")] = "",
        lift: Annotated[bool, typer.Option("--lift", help="Lift the hold of this label.")] = False,
        by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who does this. [default: your user name]")] = None,
    ) -> int:
        """Hold a run: nothing of it is removed, by no policy and by nobody, until the hold is lifted.

        Who set and lifted it, and when, stays on record, with the user of the operating system who did so.
        """
        from clients.runs.hold_calls import hold_run, lift_hold
        from clients.runs.interruption import run_async

        if not label.strip() or len(label) > 100:
            raise CommandError("--label: give 1 to 100 characters, e.g. --label legal")
        if lift:
            return run_async(context, lambda _: lift_hold(context, run_id, label.strip(), by))
        return run_async(context, lambda _: hold_run(context, run_id, label.strip(), by, reason))
