"""The page and the HTTP API, for as long as they are wanted."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clients.commands.context import CommandError, Context, ExitCode
from clients.http import DEFAULT_HOST, DEFAULT_PORT
from clients.http.access.token import WITHOUT, Entrance, entrance
from clients.runs.interruption import Interruption
from clients.runs.service.pickup import taking_up
from clients.runs.service.servers import Servers, reach_servers, task_queue
from clients.runs.service.workers import Workers, workers_for

if TYPE_CHECKING:
    from clients.http.app import Address


TURN_OF_A_THREAD = 0.0005
"""Seconds until a thread that computes lets the event loop go on. Sending to a reader may give the turn away: with Python's
5 ms, an event would take seconds to reach a thousand readers while runs are compared."""


@dataclass(frozen=True)
class Serving:
    """Where to serve, and by which names."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    allowed_hosts: tuple[str, ...] = ()
    any_port: bool = False
    """Take a free port when the wanted one is taken."""
    no_token: bool = False
    """Let everybody on this machine in."""


async def serve(context: Context, serving: Serving, interruption: Interruption) -> int:
    """Serve until Ctrl-C. On embedded servers a worker comes along: without one nothing would answer a pause."""
    stop = asyncio.Event()
    missing = missing_package()
    if missing is not None:
        raise CommandError(missing)
    way_in = entrance_of(context, serving)  # what would be open to everybody is refused before anything is started
    async with contextlib.AsyncExitStack() as exits:
        servers = await exits.enter_async_context(reach_servers(context.home))
        with interruption.instead_set(stop):
            address = await exits.enter_async_context(http_for(servers, serving, way_in))
            workers = Workers([])
            if servers.embedded:
                workers = await exits.enter_async_context(workers_for(servers, context.home))
                await exits.enter_async_context(taking_up(context, servers))
            _announce(context, servers, address, way_in)
            hopeless, stopping = asyncio.create_task(workers.until_hopeless()), asyncio.create_task(stop.wait())
            await asyncio.wait({hopeless, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if hopeless.done():
                raise hopeless.result()
            hopeless.cancel()
    return ExitCode.DONE


def missing_package() -> str | None:
    """What to install, when the packages of the HTTP side, which are an extra, are not there."""
    try:
        import clients.http.app  # noqa: F401
    except ModuleNotFoundError as error:
        return f"the page and the HTTP API need the package {error.name!r}; install ratchet-optimizer[http]"
    return None


def entrance_of(context: Context, serving: Serving) -> Entrance:
    """How one comes in; that everybody does is said."""
    if serving.no_token:
        context.note(WITHOUT)
    return entrance(context.home, serving.host, serving.allowed_hosts, no_token=serving.no_token)


@asynccontextmanager
async def http_for(servers: Servers, serving: Serving, way_in: Entrance) -> AsyncIterator[Address]:
    """The HTTP side over these servers."""
    from clients.http.app import PortTaken, serving_http

    async with contextlib.AsyncExitStack() as exits:
        try:
            opening = serving_http(servers, way_in.trust, task_queue(), host=serving.host, port=serving.port)
            address = await exits.enter_async_context(opening)
        except PortTaken as error:
            if not serving.any_port:
                raise CommandError(f"{error}; give another --port, or --port 0 for any that is free") from None
            opening = serving_http(servers, way_in.trust, task_queue(), host=serving.host, port=0)
            address = await exits.enter_async_context(opening)
        sys.setswitchinterval(TURN_OF_A_THREAD)
        await asyncio.to_thread(_set_apart_from_garbage)
        yield address


def _set_apart_from_garbage() -> None:
    """What comparisons load lives as long as the process: with it, one garbage collection holds every event up for an eighth of
    a second."""
    import clients.replay.from_store  # noqa: F401 (statistics, which take long to import)

    gc.collect()
    gc.freeze()


def _announce(context: Context, servers: Servers, address: Address, way_in: Entrance) -> None:
    lines = [
        f"Page, API     {way_in.link(address.url)}",
        f"Servers       {f'embedded, in {context.home}' if servers.embedded else servers.temporal_address}",
        "Ctrl-C stops serving" + ("; open runs sleep until the stack is up again." if servers.embedded else "."),
    ]
    facts = {"url": address.url, "host": address.host, "port": address.port, "embedded": servers.embedded}
    facts |= {"token_file": None if way_in.file is None else str(way_in.file)}
    context.facts(facts, "\n".join(lines))
