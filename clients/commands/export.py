"""`ratchet export`: a run for other programs."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from clients.commands.context import CommandError, Context, ExitCode, command
from clients.commands.steer import RunArgument
from ratchet._text.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clients.reports.facts import RunFacts
    from clients.runs.service.servers import Servers

FORMATS = ("yaml", "history-json", "json", "csv", "mermaid")


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "export", "Watch")
    def export(
        context: Context,
        run_id: RunArgument,
        form: Annotated[
            str,
            typer.Option(
                "--format",
                metavar="FORMAT",
                help="yaml or history-json (the history, which `ratchet replay` reads), json (rounds and trials), "
                "csv (answers and scores), mermaid (the lineage).",
            ),
        ] = "yaml",
        output: Annotated[
            Path | None, typer.Option("--output", metavar="FILE", help="Write it there instead of showing it.")
        ] = None,
        sample_means: Annotated[
            bool,
            typer.Option(
                help="With the history: what every sample scored, and what else verdicts depend on, to recompute them."
            ),
        ] = True,
    ) -> int:
        """Write a run, finished or not, for other programs."""
        from clients.runs.interruption import run_async

        form = "json" if context.json else form
        if form not in FORMATS:
            raise CommandError(f"--format: {form!r} is unknown; use one of {', '.join(FORMATS)}")
        return run_async(context, lambda _: export_run(context, run_id, form, output, sample_means))


async def export_run(context: Context, run_id: str, form: str, output: Path | None, sample_means: bool) -> int:
    """Read the run and write it, a piece at a time."""
    from clients.runs.lookup import reach_run

    async with reach_run(context.home, run_id) as (servers, _):
        pieces = _pieces(servers, run_id, form, sample_means)
        first = await anext(pieces)  # what cannot be read leaves no file behind
        with opened(output) as file:
            shown = visible if file.isatty() else str  # a program gets it as it is
            file.write(shown(first))
            async for piece in pieces:
                file.write(shown(piece))
    if output is not None:
        context.note(f"{output}: written")
    return ExitCode.DONE


async def _pieces(servers: Servers, run_id: str, form: str, sample_means: bool) -> AsyncIterator[str]:
    from clients.reports.exports import mermaid, outcome_rows
    from clients.reports.history.entries import get_entries
    from clients.reports.history.files import history_json, history_text
    from clients.runs.views.summary import facts_or_error

    if form == "csv":
        async for rows in outcome_rows(servers.reader, run_id):
            yield rows
        return
    facts = await facts_or_error(servers, run_id)
    match form:
        case "mermaid":
            yield mermaid(facts)
        case "history-json":
            yield history_json(await _with_answers(servers, facts, sample_means), sample_means=sample_means)
        case "json":
            yield json.dumps(get_entries(facts), ensure_ascii=False, indent=2) + "\n"
        case _:
            yield history_text(await _with_answers(servers, facts, sample_means), sample_means=sample_means)


async def _with_answers(servers: Servers, facts: RunFacts, sample_means: bool) -> RunFacts:
    from clients.reports.history.answers import with_answers
    from store.read.replay_records import RecordedOutcomes

    return await with_answers(facts, RecordedOutcomes(servers.database)) if sample_means else facts


@contextmanager
def opened(output: Path | None) -> Iterator[TextIO]:
    """Open the file that was named, else what is shown."""
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise CommandError(f"--output: cannot write {output}: {error.strerror or error}") from None
