"""`ratchet compare`: runs, or candidates of runs, side by side over the samples they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.commands.context import CommandError, Context, ExitCode, command

if TYPE_CHECKING:
    from clients.reports.comparisons.side_by_side import ComparedCandidate, ComparedStanding, SideBySide

WIDEST = 1_000
"""Columns of a table that goes to a file or a pipe, where nothing has to be folded."""


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "compare", "Watch")
    def compare(
        context: Context,
        first: Annotated[
            str,
            typer.Argument(
                metavar="A", help="A run, for its best candidate, or RUN/CANDIDATE, RUN/best, RUN/baseline.", show_default=False
            ),
        ],
        others: Annotated[
            list[str], typer.Argument(metavar="B…", help="What is compared with it, written alike.", show_default=False)
        ],
    ) -> int:
        """Compare runs or candidates on the samples they share: significance, cost per point, who fixed what.

        Held-back samples are compared where all of them were confirmed on some; else those that the searches used. The
        verdicts hold for all comparisons together.
        """
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: compare_all(context, [first, *others]))


async def compare_all(context: Context, names: list[str]) -> int:
    """Compare everything with the first that is named."""
    from clients.reports.comparisons.side_by_side import Incomparable, UnknownEntrant, side_by_side
    from clients.runs.lookup import unknown_entrant, unknown_run
    from clients.runs.service.servers import has_data, reach_servers

    if not has_data(context.home):
        raise unknown_run(names[0], [])
    async with reach_servers(context.home) as servers:
        try:
            found = await side_by_side(servers.reader, names)
        except UnknownEntrant as unknown:
            raise await unknown_entrant(servers, unknown) from None
        except Incomparable as error:
            raise CommandError(str(error)) from None
    if context.json:
        context.facts(_as_json(found))
    else:
        _show(found)
    return ExitCode.DONE


def _show(found: SideBySide) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for head in ("", "candidate", "score", "difference", "verdict", "fixed", "broken", "paid", "per point"):
        is_text = head in ("", "candidate", "difference", "verdict")
        table.add_column(head, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    table.add_row(*(Text(cell) for cell in _row(found.reference, "", "", "", "")))
    for one in found.compared:
        verdict = one.judged.verdict.value.replace("_", " ") if one.judged else "no answer in both"
        counts = str(one.counts["fixed"]), str(one.counts["broken"])
        table.add_row(*(Text(cell) for cell in _row(one, _difference(one), verdict, *counts)))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, console.measure(table, options=console.options.update(width=WIDEST)).maximum)
    console.print(table)
    samples = sum(found.compared[0].counts.values())
    console.print(Text(f"\nOn {samples} {found.samples} samples, against {_one_line(found.reference.name)}."))
    for one in found.compared:
        if one.judged is not None:
            console.print(Text(_one_line(f"{one.name}: {one.judged.explanation}")))
        for turn, items in one.samples.items():
            for item in items:
                console.print(
                    Text(f"  {turn}: {_one_line(item)}  {_one_line(one.inputs.get(item, ''))}".rstrip()), no_wrap=True
                )


def _row(one: ComparedCandidate, difference: str, verdict: str, fixed: str, broken: str) -> list[str]:
    from clients.reports.formatting import score_text

    shown = "" if one.score is None else score_text(one.score)
    point = "" if one.paid_per_point is None else f"{one.paid_per_point:.4g}"
    cells = [one.name, one.candidate_id, shown, difference, verdict, fixed, broken, f"{one.paid:.4g}", point]
    return [_one_line(cell) for cell in cells]


def _difference(one: ComparedStanding) -> str:
    from clients.reports.comparisons.score_differences import difference_of, difference_text

    return "" if one.judged is None else difference_text(difference_of(one.judged.evidence, one.direction))


def _one_line(text: str) -> str:
    from clients.reports.text.terminal_text import one_line

    return one_line(text)


def _as_json(found: SideBySide) -> dict[str, Any]:
    """In the words of the command line: a run's id is its `run_id`."""
    told = found.model_dump(mode="json")
    for one in (told["reference"], *told["compared"]):
        one["run_id"] = one.pop("optimization_id")
    return told
