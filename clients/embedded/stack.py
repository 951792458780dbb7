"""The embedded stack: the real Temporal and PostgreSQL on one machine, started by the first, gone with the last.

    async with embedded_stack(Path(".ratchet")) as stack:
        ...  # stack.temporal_address, stack.database_url

Everybody who is inside such a block is a participant. Participants and servers find each other through the home
directory (`clients.embedded.home`); the servers are owned by a process of their own (`clients.embedded.supervisor`).
"""

import asyncio
import contextlib
import logging
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clients.embedded.home import (
    LOOPBACK,
    NAMESPACE,
    Home,
    StackError,
    SupervisorState,
    is_locked,
    last_lines,
    open_lock,
    try_lock,
    unlock,
)
from clients.embedded.postgres import database_url, is_ready, postgres_binaries
from clients.embedded.temporal_server import temporal_binary, threads_of_go
from clients.own_modules import module_command, python_path
from clients.private_files import open_private
from clients.settings import DEFAULT_HOME, environment_of_children

__all__ = ["DEFAULT_HOME", "StackAddresses", "StackError", "StackState", "embedded_stack", "stack_state"]

POLL = 0.02
WATCH = 0.05
LEAVING_TAKES_AT_MOST = 15.0
HOPELESS_AFTER = 4  # failed starts in a row
PASSED_ON = (
    "PATH",
    "HOME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
)  # the servers outlive the command: they get none of its secrets

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StackAddresses:
    temporal_address: str
    namespace: str
    database_url: str = field(repr=False)  # holds the password
    ui_url: str | None
    home: Path


@dataclass(frozen=True)
class StackState:
    """What is known about the stack of a home without joining it."""

    home: Path
    addresses: StackAddresses | None
    supervisor_pid: int | None
    temporal_pid: int | None
    postgres_pid: int | None

    @property
    def running(self) -> bool:
        return self.addresses is not None


def stack_state(home: Path = DEFAULT_HOME) -> StackState:
    place = Home.at(home)
    state = SupervisorState.read(place.state) if is_locked(place.supervisor_lock) else None
    if state is None or not place.postgres_password.exists():
        return StackState(place.path, None, None, None, None)
    addresses = _addresses(place, state)
    return StackState(place.path, addresses, state.supervisor_pid, state.temporal.pid, state.postgres.pid)


@asynccontextmanager
async def embedded_stack(
    home: Path = DEFAULT_HOME, *, time_skipping: bool = False, ui: bool = True, timeout: float = 30.0
) -> AsyncIterator[StackAddresses]:
    """Joins the stack that runs on `home` or starts it, and leaves it on exit; after the last one nothing runs.

    `time_skipping` and `ui` count for the one who starts it. `timeout` bounds the wait for its servers to answer.
    """
    participant = _Participant(Home.at(home), time_skipping=time_skipping, ui=ui)
    try:
        addresses = await participant.join(timeout)
        watching = asyncio.create_task(participant.keep_supervised())
        try:
            yield addresses
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    finally:
        await participant.leave()


class _Participant:
    def __init__(self, home: Home, *, time_skipping: bool, ui: bool) -> None:
        self.binaries = postgres_binaries(), temporal_binary()
        self.home = home
        self.time_skipping = time_skipping
        self.ui = ui
        self.supervisors: list[subprocess.Popen[bytes]] = []
        self.attempts = 0
        self.next_attempt = 0.0
        try:
            home.make()
            self.lock = open_lock(home.participants_lock)
        except OSError as error:
            raise StackError(f"cannot use {home.path} for the embedded stack: {error}") from error

    async def join(self, timeout: float) -> StackAddresses:
        deadline = time.monotonic() + timeout
        while not try_lock(self.lock, shared=True):  # a stack that shuts down is waited for
            if time.monotonic() > deadline:
                raise StackError(f"the stack in {self.home.path} is stopping, but does not end\n{self._tail('supervisor')}")
            await asyncio.sleep(POLL)
        self._ensure_supervisor()
        await self._until_answers("postgres", self._postgres_answers, deadline)
        await self._until_answers("temporal", self._temporal_answers, deadline)
        state = self._state()
        if state is None:
            raise StackError(f"the supervisor in {self.home.path} ended\n{self._tail('supervisor')}")
        if self.time_skipping and not state.time_skipping:
            raise StackError(f"the stack in {self.home.path} already runs, without time skipping: stop its other users first")
        self.time_skipping, self.ui = state.time_skipping, state.ui_port is not None
        return _addresses(self.home, state)

    async def keep_supervised(self) -> None:
        while True:
            await asyncio.sleep(WATCH)
            try:
                if self._ensure_supervisor():
                    log.warning("the supervisor of %s was gone and has been started again", self.home.path)
            except OSError as error:
                log.warning("the supervisor of %s is gone and cannot be started: %s", self.home.path, error)

    async def leave(self) -> None:
        """Waits for the servers to be gone if nobody else is here."""
        unlock(self.lock)
        one_at_a_time = open_lock(self.home.leaving_lock)
        deadline = time.monotonic() + LEAVING_TAKES_AT_MOST
        try:
            while not (try_lock(one_at_a_time) and (self._all_gone() or self._others_are_here())):
                if time.monotonic() > deadline:
                    raise StackError(f"the stack in {self.home.path} does not stop\n{self._tail('supervisor')}")
                await asyncio.sleep(POLL)
        finally:
            os.close(one_at_a_time)
            os.close(self.lock)
            self._reap()

    def _all_gone(self) -> bool:
        locks = (self.home.supervisor_lock, self.home.server_lock("temporal"), self.home.server_lock("postgres"))
        return not any(is_locked(lock) for lock in locks)

    def _others_are_here(self) -> bool:
        """Others hold the lock shared; a supervisor that is about to stop holds it exclusively."""
        nobody = try_lock(self.lock)
        others = not nobody and try_lock(self.lock, shared=True)
        unlock(self.lock)
        return others

    def _ensure_supervisor(self) -> bool:
        """Starts a supervisor unless there is one. It inherits the lock, so that there is never a second."""
        self._reap()
        if time.monotonic() < self.next_attempt:
            return False
        lock = open_lock(self.home.supervisor_lock)
        try:
            if not try_lock(lock):
                return False
            self.attempts += 1
            self.next_attempt = time.monotonic() + 0.5
            if self.home.state.exists():
                self.home.state.replace(self.home.previous_state)
            self.supervisors.append(self._start_supervisor(lock))
            return True
        finally:
            os.close(lock)

    def _start_supervisor(self, lock: int) -> subprocess.Popen[bytes]:
        postgres, temporal = self.binaries
        command = [*module_command("clients.embedded.supervisor"), "--home", str(self.home.path)]
        command += ["--lock", str(lock), "--postgres", str(postgres), "--temporal", str(temporal)]
        command += ["--time-skipping"] * self.time_skipping + ["--ui"] * self.ui
        environment = {name: value for name, value in environment_of_children().items() if name in PASSED_ON}
        environment["GOMAXPROCS"] = str(threads_of_go())
        with open_private(self.home.log("supervisor"), "ab") as output:
            return subprocess.Popen(
                command,
                env=environment | {"PYTHONPATH": python_path(given=""), "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                pass_fds=(lock,),
                start_new_session=True,
            )

    def _reap(self) -> None:
        self.supervisors = [process for process in self.supervisors if process.poll() is None]

    def _state(self) -> SupervisorState | None:
        return SupervisorState.read(self.home.state)

    async def _until_answers(self, server: str, answers: Callable[[SupervisorState], Awaitable[bool]], deadline: float) -> None:
        while True:
            self._ensure_supervisor()
            state = self._state()
            if state is not None and await answers(state):
                return
            failures = self.attempts if state is None else getattr(state, server).failures
            if failures >= HOPELESS_AFTER or time.monotonic() > deadline:
                why = f"failed to start {failures} times" if failures else "does not answer"
                culprit = "supervisor" if state is None else server
                raise StackError(f"{culprit} in {self.home.path} {why}; {self._tail(culprit)}")
            await asyncio.sleep(POLL)

    async def _postgres_answers(self, state: SupervisorState) -> bool:
        if state.postgres.pid is None:
            return False
        import asyncpg  # here, so that it loads while the servers start

        try:
            connection = await asyncpg.connect(database_url(self.home, state.postgres.port), timeout=5)
        except asyncpg.InvalidAuthorizationSpecificationError as error:
            if not is_ready(self.home, state.postgres.port):
                return False  # somebody else's server was faster at this port; ours ends, and is started at another
            raise StackError(f"{self.home.postgres_password} does not fit {self.home.postgres_data}: {error}") from error
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InternalClientError):
            return False
        await connection.close()
        return True

    async def _temporal_answers(self, state: SupervisorState) -> bool:
        if state.temporal.pid is None:
            return False
        from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
        from temporalio.client import Client
        from temporalio.service import RPCError

        try:
            async with asyncio.timeout(5):
                _, probe = await asyncio.open_connection(LOOPBACK, state.temporal.port)
                probe.close()
                client = await Client.connect(f"{LOOPBACK}:{state.temporal.port}", namespace=NAMESPACE)
                await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=NAMESPACE))
        except (OSError, RuntimeError, RPCError):
            return False
        return True

    def _tail(self, server: str) -> str:
        path = self.home.log(server)
        return f"the last lines of {path}:\n{last_lines(path)}"


def _addresses(home: Home, state: SupervisorState) -> StackAddresses:
    return StackAddresses(
        temporal_address=f"{LOOPBACK}:{state.temporal.port}",
        namespace=NAMESPACE,
        database_url=database_url(home, state.postgres.port),
        ui_url=None if state.ui_port is None else f"http://{LOOPBACK}:{state.ui_port}",
        home=home.path,
    )
