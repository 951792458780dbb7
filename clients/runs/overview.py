"""Where runs stand, read from the store; what sleeps is known from Temporal."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime
from typing import Any, get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

from clients.commands.context import CommandError, Context, ExitCode
from clients.reports.formatting import duration_text, score_text
from clients.reports.load import facts_of
from clients.reports.text.summary import status_text
from clients.reports.text.terminal_text import one_line
from clients.runs.identity import is_plugin_queue
from clients.runs.interruption import Interruption
from clients.runs.lookup import TERMINAL, KnownRun, open_runs, reach_run
from clients.runs.run_code import CodeMissing, code_of, is_noted, needs_code, notes_for, told_foreign, why_unserved
from clients.runs.servers import Servers, has_data, reach_servers, task_queue
from clients.runs.start import RunOptions, attend
from clients.runs.summary import Ending, run_json, show_end
from clients.runs.waits import pollers_of, told_waits, waits_of
from clients.runs.workers import PluginCode
from store.read.rows import RunSummary
from workflows.model.run.rounds import RunStatus

NARROWEST = 100


async def list_runs(context: Context, status: str | None, limit: int) -> int:
    """One line per run."""
    if status is not None and status not in get_args(RunStatus):
        raise CommandError(f"--status: {status!r} is unknown; use one of {', '.join(get_args(RunStatus))}")
    rows: list[RunSummary] = []
    waiting: list[KnownRun] = []
    waits: dict[str, tuple[str, ...]] = {}
    if has_data(context.home):
        async with reach_servers(context.home) as servers:
            rows = await servers.reader.runs.page(status=status, limit=limit)
            not_over = await open_runs(servers)
            waiting = [run for run in not_over if run.row is None and status in (None, "initialized")]
            waits = await _waits(servers, not_over)
    runs = [_as_json(row) | _waits_for(waits.get(row.run_id)) for row in rows]
    runs = [{"run_id": run.run_id, "status": "initialized", **_waits_for(waits.get(run.run_id))} for run in waiting] + runs
    if context.json:
        context.facts({"runs": runs})
    elif not runs:
        context.say("no runs" + (f" with status {status}" if status else "; `ratchet run SPEC` starts one"))
    else:
        _print_table(rows, waiting, waits)
    return ExitCode.DONE


async def _waits(servers: Servers, runs: list[KnownRun]) -> dict[str, tuple[str, ...]]:
    """What each open run waits for, where it does. Each queue is asked about once."""
    pollers = pollers_of(servers)
    found = {run.run_id: await waits_of(servers, run, pollers) for run in runs}
    return {run_id: queues for run_id, queues in found.items() if queues}


def _waits_for(queues: tuple[str, ...] | None) -> dict[str, str]:
    return {"waits_for": told_waits(queues)} if queues else {}


def _print_table(rows: list[RunSummary], waiting: list[KnownRun], waits: dict[str, tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("Run", "Status", "Round", "Baseline", "Best", "Samples", "Cost", "Started", "Took"):
        table.add_column(
            heading, justify="right" if heading in ("Round", "Baseline", "Best", "Samples", "Cost") else "left", no_wrap=True
        )
    for run in waiting:
        table.add_row(Text(one_line(run.run_id)), "waits" if run.run_id in waits else "begins", *[""] * 7)
    for row in rows:
        passed = ((row.finished_at or datetime.now(UTC)) - row.started_at).total_seconds()
        took = max(passed - row.stood_still_seconds, 0.0)
        table.add_row(
            Text(one_line(row.run_id)),
            "waits" if row.run_id in waits else row.status,
            str(row.round),
            _score(row.baseline_score),
            _score(row.best_score),
            f"{row.spend.samples:,}",
            f"{row.spend.cost:.4f}",
            f"{row.started_at.astimezone():%Y-%m-%d %H:%M}",
            duration_text(took),
        )
    console = Console(width=max(shutil.get_terminal_size().columns, NARROWEST), highlight=False)
    console.print(table)
    for run_id, queues in waits.items():
        console.print(Text(one_line(f"{run_id} waits for {told_waits(queues)}")))


def _score(score: float | None) -> str:
    return "" if score is None else score_text(score)


def _as_json(row: RunSummary) -> dict[str, Any]:
    return row.model_dump(mode="json")


async def show_status(context: Context, run_id: str) -> int:
    """A few lines about one run."""
    async with reach_run(context.home, run_id) as (servers, run):
        progress = await servers.reader.runs.progress(run_id)
        report = await servers.reader.runs.report(run_id)
        page = servers.page_of(run_id)
        waits = await waits_of(servers, run)
        waiting = await _told_waiting(context, servers, run, waits) if waits else ""
        if report is None or progress is None:
            told = waiting or ("begins" if run.is_open else "was refused before it began")
            facts_so_far = {"run_id": run_id, "status": run.status, "open": run.is_open, "message": told, "ui": page}
            context.facts(facts_so_far | _waits_for(waits), f"{run_id}: {told}")
            return ExitCode.DONE
        facts = facts_of(report)
        live = {"open": run.is_open, "answered": progress.answered, "expected": progress.expected, "ui": page}
        text = status_text(facts, datetime.now(UTC))
        if progress.status not in TERMINAL and not run.is_open:
            text += "\nIts workflow was ended from outside (terminated in Temporal)."
        elif waiting:
            text += f"\nIt {waiting}"
        elif progress.expected:
            text += f"\nIn flight: {progress.answered:,} of {progress.expected:,} answers"
        context.facts({**_as_json(progress), **run_json(facts, run.status), **live, **_waits_for(waits)}, text)
    return ExitCode.DONE


async def _told_waiting(context: Context, servers: Servers, run: KnownRun, waits: tuple[str, ...]) -> str:
    """What an open run waits for, and who may end that."""
    told = f"waits for {told_waits(waits)}"
    notes = notes_for(servers, context.home)
    why = await asyncio.to_thread(why_unserved, notes, run)
    if why is not None:
        return f"{told}: {why}"
    noted = notes.read(run.run_id) if is_noted(notes, run) else None
    own = {task_queue(), f"{task_queue()}-evaluation"} if servers.embedded else set()
    own |= {noted.code.task_queue} if noted is not None else set()
    if set(waits) <= own:
        return f"{told}; `ratchet watch {run.run_id}` serves it here" + (", `ratchet dev` too" if servers.embedded else "")
    if noted is None and any(is_plugin_queue(queue, task_queue()) for queue in waits):
        return f"{told}: {await told_foreign(run)}"
    return f"{told}; start one there: ratchet worker"


async def watched_code(context: Context, servers: Servers, run: KnownRun) -> PluginCode | None:
    """The code that is served for a run while it is watched here; why there is none is told."""
    try:
        code = await code_of(notes_for(servers, context.home), run)
    except CodeMissing as error:
        context.note(f"ratchet: {error}")
        return None
    if code is None and await needs_code(run):
        context.note(f"ratchet: {await told_foreign(run)}")
    return code


async def watch_run(context: Context, run_id: str, ending: Ending, interruption: Interruption) -> int:
    """Attach to an open run; a finished one is shown."""
    async with reach_run(context.home, run_id) as (servers, run):
        if not run.is_open:
            return await show_end(context, servers, run_id, ending)
        options = RunOptions(ending=ending)
        return await attend(context, servers, run_id, await watched_code(context, servers, run), options, interruption)
