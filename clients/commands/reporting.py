"""`ratchet report`: how a run went, from the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clients.commands.context import CommandError, Context, ExitCode, command, print_json
from clients.commands.running import VerbosityOption
from clients.commands.steering import RunArgument

FORMATS = ("text", "json", "yaml")


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "report", "Watch")
    def report(
        context: Context,
        run_id: RunArgument,
        verbosity: VerbosityOption = "summary",
        form: Annotated[
            str, typer.Option("--format", metavar="FORMAT", help="text, json or yaml (the history file's content).")
        ] = "text",
        output: Annotated[
            Path | None, typer.Option("--output", metavar="FILE", help="Write it there instead of showing it.")
        ] = None,
        slices: Annotated[
            list[str] | None,
            typer.Option(
                "--slice",
                metavar="FIELD",
                help="Show the score of every value of tags, expected or e.g. input.language; again for more.",
            ),
        ] = None,
    ) -> int:
        """Report on a run, finished or not: a box, everything as JSON, or the YAML history."""
        from clients.commands.interrupting import run_async

        if form not in FORMATS:
            raise CommandError(f"--format: {form!r} is unknown; use one of {', '.join(FORMATS)}")
        form = "json" if context.json else form
        return run_async(context, lambda _: show_report(context, run_id, verbosity, form, output, slices))


async def show_report(
    context: Context, run_id: str, verbosity: str, form: str, output: Path | None, slices: list[str] | None = None
) -> int:
    """Read the run and show it, or write it to a file."""
    from clients.commands.ending import facts_or_error, verbosity_of
    from clients.commands.lookup import reach_run
    from clients.reports import box, history_text, report_json

    level = verbosity_of(verbosity)
    async with reach_run(context.home, run_id) as (servers, _):
        facts = await facts_or_error(servers, run_id, _fields(slices))
    if form == "json" and output is None:
        print_json(report_json(facts))
        return ExitCode.DONE
    if form == "json":
        text = json.dumps(report_json(facts), ensure_ascii=False, indent=2) + "\n"
    else:
        text = history_text(facts) if form == "yaml" else box(facts, level) + "\n"
    if output is None:
        print(text, end="", flush=True)
        return ExitCode.DONE
    _write(output, text)
    context.facts({"run_id": run_id, "written": str(output)}, f"{output}: written")
    return ExitCode.DONE


def _fields(given: list[str] | None) -> list[str] | None:
    """As the spec's dataset.slices would say it, and refused like there."""
    from pydantic import TypeAdapter, ValidationError

    from ratchet.explanation import explain
    from workflows.model.dataset import ItemField

    for field in given or []:
        try:
            TypeAdapter(ItemField).validate_python(field)
        except ValidationError as error:
            raise CommandError(f"--slice: {explain(error)[0]}") from None
    return given


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--output: cannot write {output}: {error.strerror or error}") from None
