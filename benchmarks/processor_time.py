"""CPU time by layer: what Temporal's server, PostgreSQL, the SDK's core and Python have taken so far.

Wall time tells of everybody who uses a machine, CPU time only of those who are asked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psutil

from clients.embedded.stack import stack_state

SERVER, POSTGRES, CORE, PYTHON = "Temporal's server", "PostgreSQL", "the SDK's core", "Python"
LAYERS: Final = (SERVER, POSTGRES, CORE, PYTHON)

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_SECONDS_UNTIL_TOLD: Final = 0.05
"""PostgreSQL's backends and the server's goroutines still end what they do when the answer is here."""


def taken_so_far(home: Path, worker: int | None = None) -> dict[str, float]:
    """Seconds of CPU by layer, of the stack in a home and of the process that serves it: this one, unless another is named."""
    state = stack_state(home)
    if state.temporal_pid is None or state.postgres_pid is None:
        raise RuntimeError(f"the stack in {home} does not run")
    servers = {SERVER: _of_process(state.temporal_pid), POSTGRES: _of_process(state.postgres_pid)}
    return servers | _of_threads(worker or os.getpid())


def _of_process(pid: int) -> float:
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def _of_threads(pid: int) -> dict[str, float]:
    """Threads that the core starts have names of their own; all others run Python."""
    taken = {CORE: 0.0, PYTHON: 0.0}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            stat = (thread / "stat").read_text()
        except FileNotFoundError:  # it ended meanwhile
            continue
        name, _, fields = stat.partition("(")[2].rpartition(")")
        user, system = fields.split()[11:13]
        taken[CORE if is_of_the_core(name) else PYTHON] += (int(user) + int(system)) / _TICKS
    return taken


def is_of_the_core(thread: str) -> bool:
    """Whether a thread belongs to the part of Temporal's SDK that is written in Rust."""
    return thread.startswith(("tokio", "workflow-proces"))


@asynccontextmanager
async def measured_time(home: Path) -> AsyncIterator[dict[str, float]]:
    """Seconds of CPU that the layers take while the block lasts."""
    taken: dict[str, float] = {}
    before = taken_so_far(home)
    yield taken
    await asyncio.sleep(_SECONDS_UNTIL_TOLD)
    after = taken_so_far(home)
    taken.update({layer: after[layer] - before[layer] for layer in LAYERS})
