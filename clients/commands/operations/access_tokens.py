"""`ratchet tokens`: who may use the page and the HTTP API, and for what."""

from __future__ import annotations

from typing import Annotated

import typer

from clients.commands.context import Context, command

PANEL = "Operate"
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Who holds it: a person, or a program such as ci.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    tokens = typer.Typer(name="tokens", help="Make, list and revoke tokens of the page and the HTTP API.", no_args_is_help=True)
    app.add_typer(tokens, rich_help_panel=PANEL)

    @command(tokens, "create", PANEL)
    def create(
        context: Context,
        name: NameArgument,
        role: Annotated[
            str,
            typer.Option(
                "--role",
                metavar="ROLE",
                help="read looks; run also starts, steers and deletes runs; release also approves; admin may do everything.",
            ),
        ],
        team: Annotated[
            str,
            typer.Option(
                "--team", metavar="TEAM", help="Whose runs, prompts and datasets are all that it sees; an admin sees all."
            ),
        ] = "default",
        expires: Annotated[
            str | None,
            typer.Option("--expires", metavar="TIME", help="After how long it ends: 12h, 30d. [default: never]"),
        ] = None,
    ) -> int:
        """Make a token, and print it once: only its hash is kept. Approvals are recorded under its name."""
        from clients.commands.operations.token_store import create_token
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: create_token(context, name, role, team, expires))

    @command(tokens, "list", PANEL)
    def list_(context: Context) -> int:
        """List all tokens that there ever were, the newest first, without their secrets."""
        from clients.commands.operations.token_store import list_tokens
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: list_tokens(context))

    @command(tokens, "revoke", PANEL)
    def revoke(context: Context, name: NameArgument) -> int:
        """End a token at once, with the sessions of the page and the streams that it opened."""
        from clients.commands.operations.token_store import revoke_token
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: revoke_token(context, name))
