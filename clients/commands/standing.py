"""Where runs stand, read from the store; what sleeps is known from Temporal."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import Any, get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

from activities.store.rows import RunSummary
from clients.commands.context import CommandError, Context, ExitCode
from clients.commands.ending import Ending, run_json, show_end
from clients.commands.interrupting import Interruption
from clients.commands.launching import RunOptions, attend, plugins_of
from clients.commands.lookup import TERMINAL, KnownRun, open_runs, reach_run
from clients.commands.servers import has_data, reach_servers
from clients.reporting.figures import duration_text, score_text
from clients.reporting.visible import one_line
from clients.reports import facts_of, status_text
from workflows.model.ledger import RunStatus

NARROWEST = 100


async def list_runs(context: Context, status: str | None, limit: int) -> int:
    """One line per run."""
    if status is not None and status not in get_args(RunStatus):
        raise CommandError(f"--status: {status!r} is unknown; use one of {', '.join(get_args(RunStatus))}")
    rows: list[RunSummary] = []
    waiting: list[KnownRun] = []
    if has_data(context.home):
        async with reach_servers(context.home) as servers:
            rows = await servers.reader.runs(status=status, limit=limit)
            not_over = await open_runs(servers)
            waiting = [run for run in not_over if run.row is None and status in (None, "initialized")]
    runs = [_as_json(row) for row in rows]
    runs = [{"run_id": run.run_id, "status": "initialized", "waits_for": "a worker"} for run in waiting] + runs
    if context.json:
        context.facts({"runs": runs})
    elif not runs:
        context.say("no runs" + (f" with status {status}" if status else "; `ratchet run SPEC` starts one"))
    else:
        _print_table(rows, waiting)
    return ExitCode.DONE


def _print_table(rows: list[RunSummary], waiting: list[KnownRun]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("Run", "Status", "Round", "Baseline", "Best", "Samples", "Cost", "Started", "Took"):
        table.add_column(
            heading, justify="right" if heading in ("Round", "Baseline", "Best", "Samples", "Cost") else "left", no_wrap=True
        )
    for run in waiting:
        table.add_row(Text(one_line(run.run_id)), "waits for a worker", *[""] * 7)
    for row in rows:
        passed = ((row.finished_at or datetime.now(UTC)) - row.started_at).total_seconds()
        took = max(passed - row.stood_still_seconds, 0.0)
        table.add_row(
            Text(one_line(row.run_id)),
            row.status,
            str(row.round),
            _score(row.baseline_score),
            _score(row.best_score),
            f"{row.spend.samples:,}",
            f"{row.spend.cost:.4f}",
            f"{row.started_at.astimezone():%Y-%m-%d %H:%M}",
            duration_text(took),
        )
    Console(width=max(shutil.get_terminal_size().columns, NARROWEST), highlight=False).print(table)


def _score(score: float | None) -> str:
    return "" if score is None else score_text(score)


def _as_json(row: RunSummary) -> dict[str, Any]:
    return row.model_dump(mode="json")


async def show_status(context: Context, run_id: str) -> int:
    """A few lines about one run."""
    async with reach_run(context.home, run_id) as (servers, run):
        progress = await servers.reader.progress(run_id)
        report = await servers.reader.report(run_id)
        page = servers.page_of(run_id)
        if report is None or progress is None:
            told = "waits for a worker; `ratchet watch` serves it here" if run.is_open else "was refused before it began"
            context.facts(
                {"run_id": run_id, "status": run.status, "open": run.is_open, "message": told, "ui": page}, f"{run_id}: {told}"
            )
            return ExitCode.DONE
        facts = facts_of(report)
        live = {"open": run.is_open, "answered": progress.answered, "expected": progress.expected, "ui": page}
        text = status_text(facts, datetime.now(UTC))
        if progress.status not in TERMINAL and not run.is_open:
            text += "\nIts workflow was ended from outside (terminated in Temporal)."
        elif progress.expected:
            text += f"\nIn flight: {progress.answered:,} of {progress.expected:,} answers"
        context.facts({**_as_json(progress), **run_json(facts, run.status), **live}, text)
    return ExitCode.DONE


async def watch_run(context: Context, run_id: str, ending: Ending, interruption: Interruption) -> int:
    """Attach to an open run; a finished one is shown."""
    async with reach_run(context.home, run_id) as (servers, run):
        if not run.is_open:
            return await show_end(context, servers, run_id, ending)
        options = RunOptions(ending=ending)
        return await attend(context, servers, run_id, await plugins_of(context, run), options, interruption)
