"""`ratchet audit`: who did what."""

from __future__ import annotations

from typing import Annotated

import typer

from clients.commands.context import Context, ExitCode, command


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "audit", "Operate")
    def audit(
        context: Context,
        run: Annotated[str | None, typer.Option("--run", metavar="ID", help="Only what was done to this run.")] = None,
        limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many entries at most.")] = 100,
    ) -> int:
        """Show the audit log: who started, steered, deleted and released what, the newest first.

        Over HTTP that is a token's name, at a command line the user of the operating system.
        """
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: show_audit(context, run, limit))


async def show_audit(context: Context, run: str | None, limit: int) -> int:
    """One line per entry."""
    from clients.reports.text.terminal_tables import print_table
    from clients.runs.service.servers import has_data, reach_servers
    from store.read.access.audit_log import AuditEntry

    found: list[AuditEntry] = []
    if has_data(context.home):
        async with reach_servers(context.home) as servers:
            found = await servers.reader.audit.newest(run_id=run, limit=limit)
    if context.json:
        context.facts({"entries": [entry.model_dump(mode="json") for entry in found]})
    elif not found:
        context.say("nothing was done yet" + ("" if run is None else f" to {run}"))
    else:
        rows = [
            (
                f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}",
                entry.who,
                entry.action,
                " ".join(about for about in (entry.run_id, entry.prompt, entry.subject) if about),
                entry.outcome or "under way",
                entry.through,
            )
            for entry in found
        ]
        print_table(("When", "Who", "What", "To", "Outcome", "Known by"), rows, folds=("To", "Known by"), spare=("Known by",))
    return ExitCode.DONE
