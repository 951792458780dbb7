"""Attaching to a run: served while it is watched, and shown when it is over."""

from __future__ import annotations

from clients.commands.context import Context
from clients.runs.attendance import attend
from clients.runs.interruption import Interruption
from clients.runs.lookup import KnownRun, reach_run
from clients.runs.run_options import RunOptions
from clients.runs.service.run_code import CodeMissing, code_of, needs_code, notes_for, told_foreign
from clients.runs.service.servers import Servers
from clients.runs.service.workers import PluginCode
from clients.runs.views.summary import EndView, show_end


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


async def watch_run(context: Context, run_id: str, ending: EndView, interruption: Interruption) -> int:
    """Attach to an open run; a finished one is shown."""
    async with reach_run(context.home, run_id) as (servers, run):
        if not run.is_open:
            return await show_end(context, servers, run_id, ending)
        options = RunOptions(ending=ending)
        return await attend(context, servers, run_id, await watched_code(context, servers, run), options, interruption)
