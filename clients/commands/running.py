"""`ratchet run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clients.commands.context import Context, command

SpecArgument = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec: a YAML or JSON file.", show_default=False)]
VerbosityOption = Annotated[
    str, typer.Option("--verbosity", metavar="LEVEL", help="How much the report says: minimal, summary or full.")
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "--output", metavar="DIR", help="Where the YAML history goes: DIR/optimizations/… [default: here]", show_default=False
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "run", "Run")
    def run(
        context: Context,
        spec: SpecArgument,
        new: Annotated[bool, typer.Option("--new", help="Run it again although it ran before, and pay again.")] = False,
        detach: Annotated[bool, typer.Option("--detach", help="Start it and leave; `ratchet watch` comes back.")] = False,
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before money is spent.")] = False,
        verbosity: VerbosityOption = "summary",
        output: OutputOption = Path(),
    ) -> int:
        """Run a spec: start it, attach to its open run, or show the finished one without paying again."""
        from clients.commands.ending import Ending, verbosity_of
        from clients.commands.interrupting import run_async
        from clients.commands.launching import RunOptions, run_spec

        options = RunOptions(new, detach, yes, Ending(verbosity_of(verbosity), output))
        return run_async(context, lambda interruption: run_spec(context, spec, options, interruption))
