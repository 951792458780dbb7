"""`ratchet labels`: what people said of answers, and how far they agree."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.commands.context import CommandError, Context, ExitCode, command
from clients.commands.steer import RunArgument
from ratchet._text.visible import visible

if TYPE_CHECKING:
    from clients.reports.label_agreement import LabelAgreement
    from clients.runs.service.servers import Servers
    from store.read.labels import QuestionStanding

FORMS = ("jsonl", "csv")
METHODS = {"cohen": "Cohen's kappa", "fleiss": "Fleiss' kappa", "krippendorff": "Krippendorff's alpha"}


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    labels = typer.Typer(
        name="labels",
        help="Labels that people gave to answers, on the page or over HTTP: list and export.",
        no_args_is_help=True,
    )
    app.add_typer(labels, rich_help_panel="Watch")

    @command(labels, "list", "Watch")
    def list_(context: Context, run_id: RunArgument) -> int:
        """List the questions about a run's answers, how much each person labelled, and how far they agree."""
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: list_questions(context, run_id))

    @command(labels, "export", "Watch")
    def export(
        context: Context,
        run_id: RunArgument,
        question: Annotated[
            int | None, typer.Option("--question", metavar="N", help="Only this one. [default: all of the run]")
        ] = None,
        form: Annotated[
            str, typer.Option("--format", metavar="FORMAT", help="jsonl (a JSON object on each line) or csv.")
        ] = "jsonl",
        output: Annotated[
            Path | None, typer.Option("--output", metavar="FILE", help="Write it there instead of showing it.")
        ] = None,
    ) -> int:
        """Write a line for each label: who said what of which answer, when, with the sample and the answer."""
        from clients.runs.interruption import run_async

        if form not in FORMS:
            raise CommandError(f"--format: {form!r} is unknown; use jsonl or csv")
        return run_async(context, lambda _: export_labels(context, run_id, question, form, output))


async def list_questions(context: Context, run_id: str) -> int:
    """Every question with its standing."""
    from clients.reports.label_agreement import agreement_of
    from clients.runs.lookup import reach_run

    async with reach_run(context.home, run_id) as (servers, _):
        found = await _questions(servers, run_id, None)
        said = [await servers.reader.labels.said(one.question_id) for one in found]
        known = [await asyncio.to_thread(agreement_of, one, labels) for one, labels in zip(found, said, strict=True)]
    told = [
        one.model_dump(mode="json", exclude={"optimization_id"}) | {"agreement": agreed.model_dump(mode="json")}
        for one, agreed in zip(found, known, strict=True)
    ]
    lines = [line for one, agreed in zip(found, known, strict=True) for line in _lines(one, agreed)]
    context.facts({"run_id": run_id, "questions": told}, visible("\n".join(lines)) or _none(run_id))
    return ExitCode.DONE


def _lines(question: QuestionStanding, agreed: LabelAgreement) -> list[str]:
    from clients.reports.text.terminal_text import one_line

    kind = question.kind.replace("_", " ")
    lines = [f"{question.question_id}  {one_line(question.words)}  ({kind}, {question.items} answers, drawn: {question.drawn})"]
    lines += [f"   {one_line(one.who)}: {one.labels} of {question.items}" for one in question.people]
    for one in agreed.kappas:
        told = "not to be told: all say the same" if one.value is None else f"{one.value:.2f}"
        interval = "" if one.low is None or one.high is None else f", 95% interval {one.low:.2f} to {one.high:.2f}"
        lines.append(f"   {METHODS[one.method]} {told}{interval}, of {one.items} answers")
    return lines


async def export_labels(context: Context, run_id: str, question: int | None, form: str, output: Path | None) -> int:
    """Write all labels, a page of answers at a time."""
    from clients.commands.export import opened
    from clients.reports.label_files import head_of, label_lines
    from clients.runs.lookup import reach_run

    async with reach_run(context.home, run_id) as (servers, _):
        found = await _questions(servers, run_id, question)
        if question is not None and not found:
            raise CommandError(f"--question: {run_id} has no question {question}; `ratchet labels list {run_id}` lists them")
        with opened(output) as file:
            shown: Any = visible if file.isatty() else str  # a program gets it as it is
            file.write(shown(head_of(form)))
            for one in found:
                async for line in label_lines(servers.reader.labels, one, form):
                    file.write(shown(line))
    if output is not None:
        context.note(f"{output}: written")
    return ExitCode.DONE


async def _questions(servers: Servers, run_id: str, question: int | None) -> list[QuestionStanding]:
    found = await servers.reader.labels.of_run(run_id)
    return [one for one in found if question in (None, one.question_id)]


def _none(run_id: str) -> str:
    return f"{run_id} has no questions; its Labels on the page ask some"
