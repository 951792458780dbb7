"""The list of runs, read from the store; what sleeps is known from Temporal. It loads no more than it shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

from clients.commands.context import CommandError, Context, ExitCode
from clients.reports.formatting import duration_text
from clients.reports.headline import headline_of_row
from clients.reports.text.terminal_tables import print_table
from clients.reports.text.terminal_text import one_line
from clients.runs.lookup import KnownRun, open_runs
from clients.runs.service.servers import Servers, has_data, named_by_environment, reach_servers
from clients.runs.views.waits import pollers_of, told_waits, waits_of
from store.read.rows.run_rows import RunSummary
from workflows.model.run.rounds import RunStatus


async def list_runs(context: Context, status: str | None, limit: int) -> int:
    """One line per run."""
    if status is not None and status not in get_args(RunStatus):
        raise CommandError(f"--status: {status!r} is unknown; use one of {', '.join(get_args(RunStatus))}")
    rows: list[RunSummary] = []
    waiting: list[KnownRun] = []
    waits: dict[str, str] = {}
    if has_data(context.home):
        async with reach_servers(context.home) as servers:
            rows = await servers.reader.runs.page(status=status, limit=limit)
            not_over = await open_runs(servers)
            waiting = [run for run in not_over if run.row is None and status in (None, "initialized")]
            waits = await _waits(servers, not_over)
    runs = [as_json(row) | waits_for(waits.get(row.run_id)) for row in rows]
    runs = [{"run_id": run.run_id, "status": "initialized", **waits_for(waits.get(run.run_id))} for run in waiting] + runs
    if context.home.is_absolute() and not named_by_environment():
        context.note(f"Home: {context.home}")
    if context.json:
        context.facts({"runs": runs})
    elif not runs:
        told = f" with status {status}" if status else "; `ratchet run SPEC` starts one"
        context.say("no runs" + ("" if named_by_environment() else f" in {context.home}") + told)
    else:
        _print_table(context, rows, waiting, waits)
    return ExitCode.DONE


async def _waits(servers: Servers, runs: list[KnownRun]) -> dict[str, str]:
    """What each open run waits for, where it does, in words. Each queue is asked about once."""
    pollers = pollers_of(servers)
    queues = {run.run_id: await waits_of(servers, run, pollers) for run in runs}
    months = await servers.reader.team_months.waited_for(queues)
    return {run_id: told_waits(queues[run_id]) for run_id in queues if queues[run_id]} | {
        run_id: rest.waited_for for run_id, rest in months.items() if not queues[run_id]
    }


def waits_for(told: str | None) -> dict[str, str]:
    return {"waits_for": told} if told else {}


def _print_table(context: Context, rows: list[RunSummary], waiting: list[KnownRun], waits: dict[str, str]) -> None:
    heads = ("Run", "Status", "Round", "Result", "Samples", "Cost", "Started", "Took")
    told = [[run.run_id, "waits" if run.run_id in waits else "begins", *[""] * 6] for run in waiting]
    for row in rows:
        told.append(
            [
                row.run_id,
                "waits" if row.run_id in waits else row.status,
                str(row.round),
                headline_of_row(row).brief,
                f"{row.spend.samples:,}",
                f"{row.spend.cost:.4f}",
                f"{row.started_at.astimezone():%Y-%m-%d %H:%M}",
                duration_text(row.elapsed_seconds(datetime.now(UTC))),
            ]
        )
    spare = ("Samples", "Took", "Round", "Started", "Cost")
    print_table(heads, told, right=("Round", "Samples", "Cost"), folds=("Result",), spare=spare)
    for run_id, told_of_run in waits.items():
        context.say(one_line(f"{run_id} waits for {told_of_run}"))


def as_json(row: RunSummary) -> dict[str, Any]:
    return row.model_dump(mode="json") | {"headline": headline_of_row(row).model_dump(mode="json")}
