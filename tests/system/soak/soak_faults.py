"""Every kind of fault, as a function that does it, waits until it is over, and says whom it met."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

import psutil

from tests.system.soak.soak_endpoint import Mood
from tests.system.soak.soak_victims import Victims, full, present, stopped

Fault = Callable[[Victims, Random], Awaitable[str]]


class NobodyThere(Exception):
    """The victim is not there at the moment; another fault is chosen."""


async def kill_worker(victims: Victims, random: Random) -> str:
    worker = random.choice(victims.mortal)
    await worker.replace(f"build-{victims.build}")
    return f"worker {worker.number}"


async def kill_temporal(victims: Victims, random: Random) -> str:
    await victims.kill_server("temporal")
    return "temporal"


async def kill_postgres(victims: Victims, random: Random) -> str:
    await victims.kill_server("postgres")
    return "postgres"


async def kill_backend(victims: Victims, random: Random) -> str:
    """One connection's process; PostgreSQL ends all others because of it."""
    backends = []
    for pid in victims.family("postgres")[1:]:
        with contextlib.suppress(psutil.Error):
            if "ratchet ratchet" in " ".join(psutil.Process(pid).cmdline()):
                backends.append(pid)
    if not backends:
        raise NobodyThere
    with contextlib.suppress(ProcessLookupError):
        os.kill(random.choice(backends), signal.SIGKILL)
    return "backend"


async def kill_supervisor(victims: Victims, random: Random) -> str:
    """Its servers end with it; whoever takes part starts another one."""
    await victims.kill_server("supervisor")
    await present(lambda: victims.server("postgres"))
    await present(lambda: victims.server("temporal"))
    return "supervisor"


async def kill_command(victims: Victims, random: Random) -> str:
    running = [name for name, process in victims.commands.items() if process.returncode is None]
    if not running:
        raise NobodyThere
    name = random.choice(running)
    with contextlib.suppress(ProcessLookupError):
        victims.commands[name].kill()
    return f"command {name}"


async def kill_all(victims: Victims, random: Random) -> str:
    """All that can be killed at one moment, but for the worker that is watched."""
    for name in victims.commands:
        if victims.commands[name].returncode is None:
            with contextlib.suppress(ProcessLookupError):
                victims.commands[name].kill()
    servers = (victims.kill_server(name) for name in ("temporal", "postgres"))
    await asyncio.gather(*servers, *(worker.replace(f"build-{victims.build}") for worker in victims.mortal))
    return "workers, temporal, postgres, commands"


async def stop_worker(victims: Victims, random: Random) -> str:
    """Now and then for so long that its shards are given to others."""
    worker = random.choice(victims.workers)
    if worker.pid is None:
        raise NobodyThere
    async with stopped([worker.pid]):
        await asyncio.sleep(40 if random.random() < 0.04 else random.uniform(0.3, 4))
    return f"worker {worker.number}"


async def stop_temporal(victims: Victims, random: Random) -> str:
    async with stopped(victims.family("temporal")):
        await asyncio.sleep(random.uniform(0.3, 3))
    return "temporal"


async def stop_postgres(victims: Victims, random: Random) -> str:
    async with stopped(victims.family("postgres")):
        await asyncio.sleep(random.uniform(0.3, 3))
    return "postgres"


async def cut_store(victims: Victims, random: Random) -> str:
    return f"{victims.store_way.cut()} ends of connections to postgres"


async def cut_temporal(victims: Victims, random: Random) -> str:
    return f"{victims.temporal_way.cut()} ends of connections to temporal"


async def stall_store(victims: Victims, random: Random) -> str:
    victims.store_way.hold()
    try:
        await asyncio.sleep(random.uniform(0.3, 4))
    finally:
        victims.store_way.release()
    return "way to postgres"


async def stall_temporal(victims: Victims, random: Random) -> str:
    victims.temporal_way.hold()
    try:
        await asyncio.sleep(random.uniform(0.3, 4))
    finally:
        victims.temporal_way.release()
    return "way to temporal"


def endpoint_is(mood: Mood) -> Fault:
    async def fault(victims: Victims, random: Random) -> str:
        victims.endpoint.mood = mood
        try:
            await asyncio.sleep(random.uniform(0.3, 2))
        finally:
            victims.endpoint.mood = "well"
        return "endpoint"

    return fault


async def fill_disk(victims: Victims, random: Random) -> str:
    """Nobody can write anything, neither server nor worker."""
    if victims.disk is None:
        raise NobodyThere
    async with full(victims.disk):
        await asyncio.sleep(random.uniform(0.3, 2))
    return "disk of servers and workers"


async def step_clock(victims: Victims, random: Random) -> str:
    """The clock of one worker is wrong by up to a day, and right again."""
    shifted = [worker for worker in victims.workers if worker.has_own_clock]
    if not shifted:
        raise NobodyThere
    worker = random.choice(shifted)
    seconds = random.choice([-86400, -3600, -5, 5, 3600, 86400])
    worker.time.write_text(f"{seconds:+d}\n")
    await asyncio.sleep(random.uniform(1.5, 4))
    worker.time.write_text("+0\n")
    return f"worker {worker.number} by {seconds} s"


async def upgrade(victims: Victims, random: Random) -> str:
    """One worker after the other ends in peace, and comes back as another build."""
    victims.build += 1
    worker = random.choice(victims.mortal)
    await worker.replace(f"build-{victims.build}", signal.SIGTERM)
    return f"worker {worker.number} to build {victims.build}"


FAULTS: Final[dict[str, tuple[Fault, int]]] = {
    "kill worker": (kill_worker, 14),
    "kill temporal": (kill_temporal, 6),
    "kill postgres": (kill_postgres, 6),
    "kill backend": (kill_backend, 5),
    "kill supervisor": (kill_supervisor, 2),
    "kill command": (kill_command, 5),
    "kill all": (kill_all, 3),
    "stop worker": (stop_worker, 8),
    "stop temporal": (stop_temporal, 5),
    "stop postgres": (stop_postgres, 5),
    "cut store": (cut_store, 8),
    "cut temporal": (cut_temporal, 6),
    "stall store": (stall_store, 5),
    "stall temporal": (stall_temporal, 5),
    "throttle": (endpoint_is("throttle"), 5),
    "refuse": (endpoint_is("refuse"), 5),
    "stall": (endpoint_is("stall"), 3),
    "lie": (endpoint_is("lie"), 3),
    "full disk": (fill_disk, 4),
    "step clock": (step_clock, 4),
    "upgrade": (upgrade, 5),
}
"""By kind, with how often each comes beside the others."""
