"""The embedded servers and a worker, for as long as somebody works with them."""

from __future__ import annotations

import asyncio
import contextlib

from clients.commands.context import CommandError, Context, ExitCode
from clients.demo.model_process import NO_KEY, simulated_model
from clients.embedded.home import Home
from clients.http.server import Serving, entrance_of, http_for, missing_package
from clients.runs.interruption import Interruption
from clients.runs.lookup import open_runs
from clients.runs.service.pickup import taking_up
from clients.runs.service.run_code import is_noted, needs_code, notes_for, told_foreign
from clients.runs.service.servers import Servers, named_by_environment, reach_servers
from clients.runs.service.workers import workers_for
from clients.settings import change_environment, is_set, operator_settings


async def develop(context: Context, interruption: Interruption, *, no_token: bool = False) -> int:
    """Serve until Ctrl-C. Runs that slept, and those that come, go on: with plug-ins, too, if their code is as it was."""
    if named_by_environment():
        raise CommandError(
            "the environment names servers, and `ratchet dev` runs embedded ones; unset TEMPORAL_ADDRESS and DATABASE_URL, "
            "or serve the named ones with `ratchet worker`"
        )
    stop = asyncio.Event()
    async with reach_servers(context.home) as servers, contextlib.AsyncExitStack() as exits:
        with interruption.instead_set(stop):
            simulated = await exits.enter_async_context(simulated_model(context)) if _no_model_is_named() else None
            if simulated is not None:
                change_environment({"OPENAI_BASE_URL": simulated, "OPENAI_API_KEY": NO_KEY})
            sleeping = await open_runs(servers)
            notes = notes_for(servers, context.home)
            for run in sleeping:
                if await needs_code(run) and not is_noted(notes, run):
                    context.note(f"ratchet: {await told_foreign(run)}")
            main = await exits.enter_async_context(workers_for(servers, context.home))
            await exits.enter_async_context(taking_up(context, servers))
            missing = missing_package()
            page, way_in = None, None
            if not missing:
                serving = Serving(any_port=True, no_token=no_token)
                way_in = entrance_of(context, serving)
                page = (await exits.enter_async_context(http_for(servers, serving, way_in))).url
            shown = f"(not served: {missing})" if page is None or way_in is None else way_in.link(page)
            _announce(context, servers, [run.run_id for run in sleeping], simulated, page, shown)
            hopeless = asyncio.create_task(main.until_hopeless())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({hopeless, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if hopeless.done():
                raise hopeless.result()
            hopeless.cancel()
            context.say("\nStopping; open runs sleep until the stack is up again.")
    return ExitCode.DONE


def _no_model_is_named() -> bool:
    return not is_set("OPENAI_BASE_URL") and not is_set("OPENAI_API_KEY")


def _announce(
    context: Context, servers: Servers, sleeping: list[str], simulated: str | None, page: str | None, shown: str
) -> None:
    password = Home.at(context.home).postgres_password
    secret = servers.database_url.partition("://")[2].partition("@")[0].partition(":")[2]
    database = servers.database_url.replace(f":{secret}@", f":$(cat '{password}')@")
    model = operator_settings().model_url if is_set("OPENAI_BASE_URL") else "api.openai.com"
    lines = [
        "The embedded stack is up, with a worker.",
        f"  Page, API    {shown}",
        f"  Temporal UI  {servers.ui_url or '(not served)'}",
        f"  Temporal     {servers.temporal_address}",
        f"  Data, logs   {context.home.resolve()}",
        f"  Model        {f'SIMULATED, at {simulated}: no OPENAI_BASE_URL is set' if simulated else model}",
        "",
        "For Temporal's own tools and psql, in another shell:",
        f"  export TEMPORAL_ADDRESS={servers.temporal_address}",
        f'  export DATABASE_URL="{database}"',
        "",
        *(f"{run_id} goes on" for run_id in sleeping),
        "Ctrl-C stops it; nothing is lost.",
    ]
    facts = {
        "temporal_address": servers.temporal_address,
        "namespace": servers.namespace,
        "page": page,
        "token_file": str(Home.at(context.home).serve_token),
        "ui": servers.ui_url,
        "database_url": servers.database_url.replace(f":{secret}@", "@"),
        "password_file": str(password),
        "home": str(context.home.resolve()),
        "simulated_model": simulated,
        "runs": sleeping,
    }
    context.facts(facts, "\n".join(lines))
