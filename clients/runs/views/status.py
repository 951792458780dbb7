"""Where one run stands, and what it waits for."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from clients.commands.context import Context, ExitCode
from clients.reports.load import facts_of
from clients.reports.text.batches_text import waiting_text
from clients.reports.text.summary import status_text
from clients.reports.text.terminal_text import one_line
from clients.runs.identity import is_plugin_queue
from clients.runs.lookup import TERMINAL, KnownRun, reach_run
from clients.runs.service.run_code import is_noted, notes_for, told_foreign, why_unserved
from clients.runs.service.servers import Servers, task_queue
from clients.runs.views.overview import as_json, waits_for
from clients.runs.views.summary import run_json
from clients.runs.views.waits import told_waits, waits_of


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
            context.facts(facts_so_far | waits_for(told_waits(waits) if waits else None), f"{run_id}: {told}")
            return ExitCode.DONE
        batches = await servers.reader.batches.waiting(run_id)
        months = await servers.reader.team_months.waited_for([run_id]) if run.is_open else {}
        month = months[run_id].waited_for if run_id in months else None
        facts = facts_of(report)
        live: dict[str, Any] = {"open": run.is_open, "answered": progress.answered, "expected": progress.expected, "ui": page}
        text = status_text(facts, datetime.now(UTC))
        if progress.status not in TERMINAL and not run.is_open:
            text += "\nIts workflow was ended from outside (terminated in Temporal)."
        elif waiting:
            text += f"\nIt {waiting}"
        elif month is not None:
            text += f"\nIt waits for {one_line(month)}."
        elif progress.expected:
            text += f"\nIn flight: {progress.answered:,} of {progress.expected:,} answers"
        if told_batches := waiting_text(batches, datetime.now(UTC)):
            text += f"\n{told_batches}"
        live |= {"batches": [batch.model_dump(mode="json") for batch in batches]} if batches else {}
        context.facts(
            {**as_json(progress), **run_json(facts, run.status), **live, **waits_for(told_waits(waits) if waits else month)},
            text,
        )
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
