"""`ratchet run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clients.commands.context import CommandError, Context, command
from clients.settings import TEAM, change_environment

SpecArgument = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec: a YAML or JSON file.", show_default=False)]
VerbosityOption = Annotated[
    str,
    typer.Option(
        "--verbosity",
        metavar="LEVEL",
        help="How much the report says: minimal, summary or full; with full, lines tell each decision, too.",
    ),
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "--output", metavar="DIR", help="Where the YAML history goes: DIR/optimizations/… [default: here]", show_default=False
    ),
]

GateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--gate",
        metavar="CONDITION",
        help='What the run must have reached, e.g. "verdict in (better, not_worse) and cost <= 2.5"; else the exit code is 3. '
        "Again for more.",
    ),
]
JunitOption = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write the outcome and the gates as JUnit XML.")
]
SummaryOption = Annotated[
    Path | None,
    typer.Option("--summary", metavar="FILE", help="Add a Markdown summary to this file, e.g. $GITHUB_STEP_SUMMARY."),
]

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask: not before money is spent, and not after the first look.")
]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="End with exit code 2 where a first look at the baseline's answers finds something wrong, instead of going on.",
    ),
]
AskAboveOption = Annotated[
    float,
    typer.Option(
        "--ask-above",
        metavar="AMOUNT",
        help="Ask before a run that may cost more than this at worst; without a terminal it then needs --yes.",
    ),
]
TeamOption = Annotated[
    str | None, typer.Option("--team", metavar="TEAM", help="Whose run it is. [default: RATCHET_TEAM, else default]")
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "run", "Run")
    def run(
        context: Context,
        spec: SpecArgument,
        new: Annotated[bool, typer.Option("--new", help="Run it again although it ran before, and pay again.")] = False,
        detach: Annotated[bool, typer.Option("--detach", help="Start it and leave; `ratchet watch` comes back.")] = False,
        yes: YesOption = False,
        strict: StrictOption = False,
        ask_above: AskAboveOption = 1.0,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Check, estimate and print the plan; start nothing, not even a server.")
        ] = False,
        retry_failed: Annotated[
            bool,
            typer.Option(
                "--retry-failed",
                help="Run it again, with all answers of its newest finished run but those that failed or are missing.",
            ),
        ] = False,
        verbosity: VerbosityOption = "summary",
        output: OutputOption = Path(),
        gate: GateOption = None,
        junit: JunitOption = None,
        summary: SummaryOption = None,
        team: TeamOption = None,
    ) -> int:
        """Run a spec: start it, attach to its open run, or show the finished one without paying again.

        Once the baseline is measured, three of its answers are shown, and what is probably wrong with how they are measured.
        Where something is, the run asks on a terminal before it goes on; elsewhere it goes on, and every report says it.
        """
        from clients.runs.interruption import run_async
        from clients.runs.run_options import RunOptions
        from clients.runs.start import run_spec
        from clients.runs.views.summary import ending_of

        if team is not None:
            change_environment({TEAM: team})
        if new and retry_failed:
            raise CommandError("--new and --retry-failed exclude each other: one pays for everything again, the other does not")
        ending = ending_of(verbosity, output, gate, junit, summary, strict=strict)
        options = RunOptions(new, detach, yes, ask_above, dry_run, retry_failed, ending=ending)
        return run_async(context, lambda interruption: run_spec(context, spec, options, interruption))

    @command(app, "rescore", "Run")
    def rescore(
        context: Context,
        run_id: Annotated[str, typer.Argument(metavar="ID", help="A finished run, as `ratchet list` shows it.")],
        spec: Annotated[
            Path, typer.Option("--spec", metavar="SPEC", help="Its spec with other scorers, objective, judgement or prices.")
        ],
        detach: Annotated[bool, typer.Option("--detach", help="Start it and leave; `ratchet watch` comes back.")] = False,
        yes: YesOption = False,
        ask_above: AskAboveOption = 1.0,
        verbosity: VerbosityOption = "summary",
        output: OutputOption = Path(),
        gate: GateOption = None,
        junit: JunitOption = None,
        summary: SummaryOption = None,
    ) -> int:
        """Score the answers of a finished run anew: a new run with its candidates, judged by another spec, and no target call.

        It picks its winner and confirms it by the rules of that spec, and is reported like any other run. An answer that the
        first run did not get is missing. Only judges cost anything.
        """
        from clients.runs.interruption import run_async
        from clients.runs.run_options import RunOptions
        from clients.runs.start import run_spec
        from clients.runs.views.summary import ending_of

        ending = ending_of(verbosity, output, gate, junit, summary)
        options = RunOptions(detach=detach, yes=yes, ask_above=ask_above, rescore_of=run_id, ending=ending)
        return run_async(context, lambda interruption: run_spec(context, spec, options, interruption))

    @command(app, "retry", "Run")
    def retry(
        context: Context,
        run_id: Annotated[str, typer.Argument(metavar="ID", help="A finished run, as `ratchet list` shows it.")],
        detach: Annotated[bool, typer.Option("--detach", help="Start it and leave; `ratchet watch` comes back.")] = False,
        yes: YesOption = False,
        ask_above: AskAboveOption = 1.0,
        verbosity: VerbosityOption = "summary",
        output: OutputOption = Path(),
        gate: GateOption = None,
        junit: JunitOption = None,
        summary: SummaryOption = None,
    ) -> int:
        """Run a finished run again for what failed: a new run that takes over all its other answers, and its proposals.

        Nothing that was answered is paid for again. Once answers that failed before are there, other candidates may turn out
        to be the best, so that later rounds may differ, and cost what they cost: it asks as `ratchet run` does.
        """
        from clients.runs.interruption import run_async
        from clients.runs.run_options import RunOptions
        from clients.runs.start import retry_run
        from clients.runs.views.summary import ending_of

        ending = ending_of(verbosity, output, gate, junit, summary)
        options = RunOptions(detach=detach, yes=yes, ask_above=ask_above, ending=ending)
        return run_async(context, lambda interruption: retry_run(context, run_id, options, interruption))
