"""Staying with an open run: serving it, showing it, asking its person; and letting go of it."""

from __future__ import annotations

import asyncio

from clients.commands.context import Context, ExitCode
from clients.embedded.home import Home, is_held, is_shared
from clients.local_audit import audited
from clients.runs.follow import RunFollower, display_for
from clients.runs.interruption import Interruption
from clients.runs.questions import agreed, is_at_terminal
from clients.runs.run_options import RunOptions
from clients.runs.service.run_code import notes_for
from clients.runs.service.servers import Servers
from clients.runs.service.workers import PluginCode, workers_for
from clients.runs.start_plan import StartPlan
from clients.runs.views.summary import show_end


async def attend(
    context: Context,
    servers: Servers,
    run_id: str,
    plugins: PluginCode | None,
    options: RunOptions,
    interruption: Interruption,
) -> int:
    """Serve and watch an open run until it ends, or until the person lets go of it."""
    let_go = asyncio.Event()
    with interruption.instead_set(let_go):
        async with workers_for(servers, context.home, plugins=plugins) as workers:
            display = display_for(context, run_id, options.ending.verbosity)
            notes, asks = notes_for(servers, context.home), is_at_terminal(context)
            follower = RunFollower(servers, run_id, display, notes, asks=asks)
            how = await follower.until_end(let_go, workers)
            if how == "asks":
                follower.asks = False
                await _ask_after_look(context, servers, run_id, let_go)
                how = await follower.until_end(let_go, workers)
            if how == "ended":
                return await show_end(context, servers, run_id, options.ending)
            context.say("\nLetting go of the run: what is in flight is handed back …")
        return _let_go(context, servers, run_id, plugins)


async def _ask_after_look(context: Context, servers: Servers, run_id: str, let_go: asyncio.Event) -> None:
    """Have the person say whether a run goes on whose first look found something; it rests until then."""
    asking = asyncio.create_task(agreed("Something is probably wrong with how this is measured. Go on?", unless_said=False))
    letting_go = asyncio.create_task(let_go.wait())
    try:
        await asyncio.wait({asking, letting_go}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            return
        handle = servers.client.get_workflow_handle(run_id)
        async with audited(servers.database, "resume" if asking.result() else "cancel", run_id=run_id):
            if asking.result():
                await handle.execute_update("resume")
            else:
                context.say("Cancelled; `ratchet run SPEC --retry-failed` takes over what was answered.")
                await handle.cancel()
    finally:
        for task in (asking, letting_go):
            task.cancel()
        await asyncio.gather(asking, letting_go, return_exceptions=True)


def _let_go(context: Context, servers: Servers, run_id: str, plugins: PluginCode | None) -> int:
    meanwhile = "The run goes on"
    if servers.embedded and not _is_taken_up(context, plugins):
        meanwhile = "The run sleeps until the stack is up again"
    elif plugins is not None:
        meanwhile = "The run waits: its plug-ins are served only while somebody watches it here"
    context.say(f"Detached from {run_id}. {meanwhile}.\n{_ways_back(run_id)}")
    context.facts({"run_id": run_id, "status": "detached", "embedded": servers.embedded})
    return ExitCode.DETACHED


async def leave_started(context: Context, servers: Servers, run_id: str, plan: StartPlan) -> int:
    if servers.embedded and _is_taken_up(context, plan.plugins):
        context.say("It goes on: the stack that is up here serves it.")
    elif servers.embedded:
        context.say("It sleeps until the embedded stack is up with a worker: `ratchet watch` or `ratchet dev` wakes it.")
    elif plan.plugins is not None:
        context.say(
            f"Its plug-ins wait for a worker on task queue {plan.plugins.task_queue!r}: `ratchet watch` here serves it."
        )
    context.say(_ways_back(run_id))
    context.facts({"run_id": run_id, "status": "started", "embedded": servers.embedded, "ui": servers.page_of(run_id)})
    return ExitCode.DONE


def _is_taken_up(context: Context, plugins: PluginCode | None) -> bool:
    """Whether another command on these embedded servers serves the run: every worker does, unless it has plug-ins."""
    home = Home.at(context.home)
    if plugins is None:
        return is_held(home.workers_lock)
    return is_shared(home.taking_up_lock) or is_shared(home.code_lock(plugins.task_queue))


def _ways_back(run_id: str) -> str:
    return (
        f"  come back:  ratchet watch {run_id}\n"
        f"  stop early: ratchet stop {run_id}    (keeps the best, confirms, reports)\n"
        f"  cancel:     ratchet cancel {run_id}"
    )
