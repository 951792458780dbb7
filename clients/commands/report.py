"""`ratchet report`: how a run went, from the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clients.commands.context import CommandError, Context, ExitCode, command, print_json
from clients.commands.run import GateOption, VerbosityOption
from ratchet._text.visible import visible

if TYPE_CHECKING:  # what commands show with is imported when one is run
    from clients.reports.facts import RunFacts
    from clients.reports.gates import GateResult
    from clients.reports.several_runs import ReportedRuns
    from clients.reports.text.boxes import Verbosity
    from clients.runs.service.servers import Servers
    from clients.runs.views.summary import EndView

FORMATS = ("text", "markdown", "html", "json", "yaml")


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "report", "Watch")
    def report(
        context: Context,
        run_ids: Annotated[
            list[str],
            typer.Argument(metavar="ID…", help="A run's id, as `ratchet list` shows it; several for HTML.", show_default=False),
        ],
        verbosity: VerbosityOption = "summary",
        form: Annotated[
            str,
            typer.Option(
                "--format",
                metavar="FORMAT",
                help="text, markdown, html (one file to keep or send), json or yaml (the history file).",
            ),
        ] = "text",
        output: Annotated[
            Path | None, typer.Option("--output", metavar="FILE", help="Write it there instead of showing it.")
        ] = None,
        folder: Annotated[
            Path | None,
            typer.Option(
                "--folder",
                metavar="DIR",
                help="Write HTML there: index.html with the runs and how they compare, and a file for each run. It opens "
                "without a server.",
            ),
        ] = None,
        slices: Annotated[
            list[str] | None,
            typer.Option(
                "--slice",
                metavar="FIELD",
                help="Show the score of every value of tags, expected or e.g. input.language; again for more.",
            ),
        ] = None,
        gate: GateOption = None,
    ) -> int:
        """Report on a run, finished or not: as a box, Markdown, the page in one HTML file, JSON, or the YAML history.

        Several runs become one HTML file, or with --folder one for each, with how they compare.
        """
        from clients.runs.interruption import run_async
        from clients.runs.views.summary import ending_of

        if form not in FORMATS:
            raise CommandError(f"--format: {form!r} is unknown; use one of {', '.join(FORMATS)}")
        ending = ending_of(verbosity, Path(), gate, None, None)
        named = list(dict.fromkeys(run_ids))
        if folder is not None:
            if output is not None:
                raise CommandError("--output and --folder: give the file or the folder")
            return run_async(context, lambda _: write_report_folder(context, named, ending, folder, _fields(slices)))
        if len(named) == 1:
            form = "json" if context.json else form
            return run_async(context, lambda _: show_report(context, named[0], ending, form, output, slices))
        if form != "html":
            raise CommandError("ID…: several runs make an HTML report; give --format html with --output FILE, or --folder DIR")
        return run_async(context, lambda _: show_several(context, named, ending, output, _fields(slices)))


async def show_report(
    context: Context, run_id: str, ending: EndView, form: str, output: Path | None, slices: list[str] | None = None
) -> int:
    """Read the run and show it, or write it to a file."""
    from clients.reports.gates import meets
    from clients.reports.history.entries import report_json
    from clients.runs.lookup import reach_run
    from clients.runs.views.summary import facts_or_error, gated, gates_json

    async with reach_run(context.home, run_id) as (servers, _):
        facts = await facts_or_error(servers, run_id, _fields(slices))
        answers = await _inlined(servers, run_id, ending, slices) if form == "html" else {}
    judged = [meets(gate, facts) for gate in ending.gates]
    code = gated(ExitCode.DONE, judged)
    if form == "json" and output is None:
        print_json(report_json(facts) | gates_json(judged))
        return code
    text = formatted(facts, ending.verbosity, form, judged, answers)
    if output is None:
        print(visible(text), end="", flush=True)
        return code
    _write(output, text)
    context.facts({"run_id": run_id, "written": str(output)}, f"{output}: written")
    return code


async def show_several(
    context: Context, run_ids: Sequence[str], ending: EndView, output: Path | None, slices: list[str] | None
) -> int:
    """Write several runs as one HTML file."""
    read, code = await _read(context, run_ids, ending, slices)
    text = read.as_file()
    if output is None:
        print(visible(text), end="", flush=True)
    else:
        _write(output, text)
        context.facts({"run_ids": list(run_ids), "written": str(output)}, f"{output}: written")
    return code


async def write_report_folder(
    context: Context, run_ids: Sequence[str], ending: EndView, folder: Path, slices: list[str] | None
) -> int:
    """Write several runs, or one, as a folder of HTML files."""
    from clients.reports.several_runs import INDEX, NoReportFolder, write_folder

    read, code = await _read(context, run_ids, ending, slices)
    texts = read.as_files()
    try:
        write_folder(folder, texts)
    except NoReportFolder as error:
        raise CommandError(f"--folder: {error}") from None
    except OSError as error:
        raise CommandError(f"--folder: cannot write {folder}: {error.strerror or error}") from None
    facts = {"run_ids": list(run_ids), "folder": str(folder), "files": sorted(texts)}
    context.facts(facts, f"{folder / INDEX}: written, with {len(run_ids)} run{'s' * (len(run_ids) > 1)}")
    return code


async def _read(
    context: Context, run_ids: Sequence[str], ending: EndView, slices: list[str] | None
) -> tuple[ReportedRuns, ExitCode]:
    from clients.reports.gates import meets
    from clients.reports.html import ReportedRun
    from clients.reports.several_runs import reported_runs
    from clients.reports.text.boxes import Verbosity
    from clients.runs.lookup import existing_run, reach_run
    from clients.runs.views.summary import facts_or_error, gated

    async with reach_run(context.home, run_ids[0]) as (servers, _):
        runs, answers = [], {}
        for run_id in run_ids:
            await existing_run(servers, run_id)
            facts = await facts_or_error(servers, run_id, slices)
            runs.append(ReportedRun(facts, [meets(gate, facts) for gate in ending.gates]))
            answers[run_id] = await _inlined(servers, run_id, ending, slices)
        read = await reported_runs(servers.reader, runs, answers, in_full=ending.verbosity is Verbosity.FULL)
    return read, gated(ExitCode.DONE, [gate for one in runs for gate in one.gates])


async def _inlined(servers: Servers, run_id: str, ending: EndView, slices: list[str] | None) -> dict[str, str]:
    from clients.reports.inlined_answers import inlined_answers
    from clients.reports.text.boxes import Verbosity
    from clients.runs.lookup import written_spec

    in_full = ending.verbosity is Verbosity.FULL
    written = await written_spec(servers, run_id)
    return await inlined_answers(servers.database, run_id, in_full=in_full, slice_fields=slices, written=written)


def formatted(
    facts: RunFacts,
    verbosity: Verbosity,
    form: str,
    judged: Sequence[GateResult] = (),
    answers: Mapping[str, str] | None = None,
) -> str:
    """The report in one of its forms; `answers` are what is inlined into HTML."""
    from clients.reports.history.entries import report_json
    from clients.reports.history.files import history_text
    from clients.reports.html import html
    from clients.reports.markdown import markdown
    from clients.reports.text.boxes import box
    from clients.runs.views.summary import gates_json

    match form:
        case "json":
            return json.dumps(report_json(facts) | gates_json(judged), ensure_ascii=False, indent=2) + "\n"
        case "yaml":
            return history_text(facts)
        case "markdown":
            return markdown(facts, verbosity, judged)
        case "html":
            return html(facts, answers or {}, judged)
    told = [gate.words[:1].upper() + gate.words[1:] for gate in judged]
    return "\n".join([box(facts, verbosity), *told]) + "\n"


def _fields(given: list[str] | None) -> list[str] | None:
    """As the spec's dataset.slices would say it, and refused like there."""
    from pydantic import TypeAdapter, ValidationError

    from ratchet._text.explanation import explain
    from workflows.model.spec.dataset import ItemField

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
