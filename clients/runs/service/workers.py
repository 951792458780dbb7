"""Workers as child processes: started again when they die, never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from activities.settings import (
    ALLOWED_FILE,
    BUILD_ID,
    DEPLOYMENT,
    EVALUATION_TASK_QUEUE,
    HEALTH_FILE,
    OF_THE_CONTROLLER,
    ROLE,
    STATE_DIR,
    Role,
)
from clients.commands.context import CommandError, ExitCode
from clients.embedded.home import Home, held_shared, last_lines
from clients.own_modules import module_command, python_path
from clients.private_files import make_private_folder, open_private
from clients.runs.service.servers import Servers, task_queue
from clients.settings import environment_of_children
from ratchet._environment import PLUGIN_PATH, PLUGINS, TASK_QUEUE
from ratchet._processes.child_process import ChildProcess, begin

GRACE = 3.0
"""Seconds that shards in flight get before they hand back what they have."""
STOPPING_TAKES_AT_MOST = 20.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
LIVES_LONG = 5.0
"""Seconds. A worker that lives longer has served; one that never does cannot start."""
HOPELESS_AFTER = 6
CANNOT_SERVE = 5
"""The worker's own exit code for a server that is away."""


@dataclass(frozen=True)
class PluginCode:
    """What a worker of its own needs to serve the plug-ins of one spec."""

    directory: Path
    modules: tuple[str, ...]
    task_queue: str

    def environment(self) -> dict[str, str]:
        return {
            PLUGINS.name: ",".join(self.modules),
            PLUGIN_PATH.name: str(self.directory),
            EVALUATION_TASK_QUEUE: self.task_queue,
        }


@dataclass
class WorkerProcess:
    """One worker, kept alive while it is wanted."""

    name: str
    role: Role
    environment: Mapping[str, str]
    logs: Path
    lock: Path | None = None
    """Held as long as it lives, so that its servers wait for it."""
    deaths: int = 0
    process: ChildProcess | None = None
    started: float = 0.0
    hopeless: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def task_queues(self) -> frozenset[str]:
        """What it serves, or will as soon as it is up."""
        queue = self.environment.get(TASK_QUEUE.name, "")
        evaluation = self.environment.get(EVALUATION_TASK_QUEUE) or f"{queue}-evaluation"
        return frozenset([queue] * (self.role != "evaluation") + [evaluation] * (self.role != "workflows"))

    @property
    def output(self) -> Path:
        """What the worker and its plug-ins print; its log proper is beside it."""
        return self.logs / f"{self.name}.out"

    async def keep_alive(self) -> None:
        """Start the worker again whenever it dies, with patience that grows."""
        pause = FIRST_PAUSE
        in_a_row = 0
        while True:
            self._start()
            assert self.process is not None
            await self.process.wait()
            self.deaths += 1
            long_lived = time.monotonic() - self.started > LIVES_LONG
            in_a_row = 0 if long_lived else in_a_row + 1
            pause = FIRST_PAUSE if long_lived else min(pause * 2, LONGEST_PAUSE)
            if in_a_row >= HOPELESS_AFTER:
                self.hopeless.set()
            await asyncio.sleep(pause)

    def _start(self) -> None:
        make_private_folder(self.logs)
        lifetime = ["--exit-with-parent", str(os.getpid()), "--grace", f"{GRACE:g}"]
        command = module_command("worker", "--role", self.role, *lifetime)
        holding = ("--hold", str(self.lock)) if self.lock is not None else ()
        self.started = time.monotonic()
        with open_private(self.output, "ab") as output:
            log = ("--log-file", str(self.logs / f"{self.name}.log"))
            self.process = begin(*command, *holding, *log, env=dict(self.environment), output=output)

    async def stop(self) -> None:
        """SIGTERM, patience, SIGKILL: for the worker, and for whatever its plug-ins have started."""
        process = self.process
        if process is None:
            return
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOPPING_TAKES_AT_MOST)
        with contextlib.suppress(PermissionError):
            process.kill()
        await process.wait()

    def told(self) -> CommandError:
        """Why this worker is given up."""
        return CommandError(
            f"the {self.name} dies as soon as it starts; the last lines of {self.output}:\n{last_lines(self.output)}",
            ExitCode.FAILED,
        )


@dataclass
class Workers:
    """The workers of one command."""

    processes: list[WorkerProcess]
    served_here: frozenset[str] = frozenset()
    """What is served in this process beside them."""

    @property
    def task_queues(self) -> frozenset[str]:
        """What they serve together."""
        return self.served_here.union(*(process.task_queues for process in self.processes))

    async def until_hopeless(self) -> CommandError:
        """Returns when one of the workers does not start, whatever is tried."""
        if not self.processes:
            await asyncio.Event().wait()
        waits = [asyncio.ensure_future(process.hopeless.wait()) for process in self.processes]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        assert self.hopeless is not None
        return self.hopeless

    @property
    def hopeless(self) -> CommandError | None:
        """Why one of them is given up, where one is."""
        return next((process.told() for process in self.processes if process.hopeless.is_set()), None)


@asynccontextmanager
async def workers_for(
    servers: Servers, home: Path, *, plugins: PluginCode | None = None, role: Role | None = "all"
) -> AsyncIterator[Workers]:
    """The workers a command brings along: on embedded servers one for everybody, and one with the spec's own plug-ins.

    On servers named by the environment the cluster's workers serve; only plug-ins need a worker of ours.
    """
    place = Home.at(home)
    logs = place.logs
    wanted: list[WorkerProcess] = []
    base = environment_of_worker(servers, place)
    lock = place.workers_lock if servers.embedded else None
    if servers.embedded and role is not None:
        wanted.append(WorkerProcess("worker", role, base, logs, lock))
    if plugins is not None:
        name = f"plugin-worker-{plugins.task_queue.rpartition('-')[2]}"
        wanted.append(WorkerProcess(name, "evaluation", base | plugins.environment(), logs, lock))
    with contextlib.ExitStack() as told:
        if servers.embedded and plugins is not None:
            told.enter_context(held_shared(place.code_lock(plugins.task_queue)))
        keeping = [asyncio.create_task(process.keep_alive()) for process in wanted]
        try:
            yield Workers(wanted)
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
            await asyncio.gather(*(process.stop() for process in wanted))


def environment_of_worker(servers: Servers, home: Home) -> dict[str, str]:
    """The user's own, among it what plug-ins he allows everybody (RATCHET_PLUGINS). Which queues are served is our decision,
    and that no other version serves them. A key or a profile meant for another server must not be sent to the embedded one."""
    theirs = ("TEMPORAL_",) if servers.embedded else ()
    decided = (EVALUATION_TASK_QUEUE, ROLE, DEPLOYMENT, BUILD_ID, HEALTH_FILE, *OF_THE_CONTROLLER.values())
    inherited = environment_of_children().items()
    kept = {name: value for name, value in inherited if name not in decided and not name.startswith(theirs)}
    kept |= servers.worker_environment() | {TASK_QUEUE.name: task_queue(), "PYTHONPATH": python_path()}
    kept[ALLOWED_FILE] = str(home.allowed)
    return kept | {STATE_DIR: str(home.calls)} if servers.embedded else kept
