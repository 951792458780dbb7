"""The process that owns the two servers of a home: starts them, restarts them, and stops them when nobody is left.

It runs in a session of its own, so that Ctrl-C in a terminal does not reach it, and with nothing but the standard
library, so that it is there at once. It has one thread: the servers are told to die with the thread that started them.
"""

import argparse
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from clients.embedded.home import (
    Home,
    ServerState,
    StackError,
    SupervisorState,
    free_port,
    is_held,
    is_locked,
    open_lock,
    port_is_free,
    read_json,
    try_lock,
    unlock,
    write_json,
)
from clients.embedded.postgres import Postgres
from clients.embedded.server_process import runs_on
from clients.embedded.temporal_server import TemporalServer
from clients.private_files import open_private

TICK = 0.1  # a server that ends is noticed at once
SHORT_TICK = 0.025
PROVEN_AFTER = 2.0  # a server that has lived so long got its port
HEALTHY_AFTER = 10.0  # and one that has lived so long has put earlier failures behind it
LONGEST_BACKOFF = 2.0
LEFTOVER_GRACE = 5.0
LARGEST_LOG = 10_000_000

# Within a quarter of a second the dev server has stopped its queues; then its front end sleeps one second for load
# balancers that are not there. What it has committed is safe either way.
TEMPORAL_GRACE = 0.5
POSTGRES_GRACE = 10.0

# Workers whose command was killed get this long to hand back what they have. By themselves they need less.
WORKERS_GRACE = 8.0


def say(message: str) -> None:
    print(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} [{os.getpid()}] {message}", flush=True)


@dataclass
class Server:
    """One child process: kept alive on its port, on data that nobody else has open."""

    name: str
    home: Home
    port: int
    command: Callable[[], list[str]]
    after_fork: Callable[[], Callable[[], None]]
    prepare_data: Callable[[], None]
    leave_taken_ports: Callable[[], None]
    stop_signal: signal.Signals
    grace: float
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0
    started_at: float = 0.0
    next_start: float = 0.0
    proven: bool = False

    def tick(self) -> None:
        now = time.monotonic()
        if self.process is None:
            if now >= self.next_start:
                self._start(now)
            return
        code = self.process.poll()
        alive_for = now - self.started_at
        self.proven = self.proven or alive_for > PROVEN_AFTER
        if alive_for > HEALTHY_AFTER:
            self.failures = 0
        if code is not None:
            self.process = None
            self._failed(f"ended with {code} after {alive_for:.1f} s", now)

    def _start(self, now: float) -> None:
        lock = open_lock(self.home.server_lock(self.name))
        try:
            if not try_lock(lock):
                return  # children of a killed server are still on their way out
            if self.failures and not self.proven:
                self.leave_taken_ports()
            self.prepare_data()
            with open_private(self.home.log(self.name), "ab") as log:
                self.process = subprocess.Popen(
                    self.command(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    pass_fds=(lock,),
                    preexec_fn=self.after_fork(),
                )
            self.started_at = now
            say(f"{self.name}: started as {self.process.pid} on port {self.port}")
        except (OSError, subprocess.SubprocessError, StackError) as error:
            self._failed(f"could not be started: {error}", now)
        finally:
            os.close(lock)

    def _failed(self, how: str, now: float) -> None:
        backoff = min(0.1 * 2 ** (self.failures - 1), LONGEST_BACKOFF) if self.failures else 0.0
        self.failures += 1
        self.next_start = now + backoff
        say(f"{self.name}: {how}; starting again in {backoff:.1f} s")

    def ask_to_stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(self.stop_signal)

    def wait_until_stopped(self) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, self.grace))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def state(self) -> ServerState:
        return ServerState(self.port, self.process.pid if self.process else None, self.failures)


class Supervisor:
    def __init__(self, home: Home, postgres: Postgres, temporal: TemporalServer, *, ui: bool) -> None:
        self.home = home
        self.time_skipping = temporal.time_skipping
        self.participants = open_lock(home.participants_lock)
        self.asked_to_stop = False
        self.last_seen = time.monotonic()
        self.published: SupervisorState | None = None
        self.ui_port: int | None = None
        self.with_ui = ui
        self.temporal = Server(
            name="temporal",
            home=home,
            port=0,
            command=lambda: temporal.command(self.temporal.port, self.ui_port),
            after_fork=temporal.after_fork,
            prepare_data=lambda: None,
            leave_taken_ports=self.choose_ports,
            stop_signal=signal.SIGTERM,
            grace=TEMPORAL_GRACE,
        )
        self.postgres = Server(
            name="postgres",
            home=home,
            port=0,
            command=lambda: postgres.command(self.postgres.port),
            after_fork=postgres.after_fork,
            prepare_data=postgres.prepare_data,
            leave_taken_ports=self.choose_ports,
            stop_signal=signal.SIGINT,
            grace=POSTGRES_GRACE,
        )
        self.servers = (self.temporal, self.postgres)

    def run(self) -> None:
        heard, told = socket.socketpair()
        heard.setblocking(False)
        told.setblocking(False)
        signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop_was_asked)
        self.clear_leftovers()
        self.choose_ports()
        try:
            while not self.asked_to_stop:
                for server in self.servers:
                    server.tick()
                self.publish()
                if self.nobody_is_left():
                    say("nobody is left")
                    break
                if select.select([heard], [], [], TICK)[0]:
                    heard.recv(4096)
        finally:
            self.stop()

    def nobody_is_left(self) -> bool:
        """Whether there are no participants, and their workers have stored what was in flight when the last one was killed."""
        if not try_lock(self.participants):
            self.last_seen = time.monotonic()
            return False
        if is_held(self.home.workers_lock) and time.monotonic() - self.last_seen < WORKERS_GRACE:
            unlock(self.participants)  # whoever comes meanwhile finds the servers running
            return False
        return True

    def _stop_was_asked(self, *_: object) -> None:
        self.asked_to_stop = True

    def stop(self) -> None:
        for server in self.servers:
            server.ask_to_stop()
        for server in self.servers:
            server.wait_until_stopped()
        self.home.state.unlink(missing_ok=True)
        say("stopped")

    def publish(self) -> None:
        state = SupervisorState(
            supervisor_pid=os.getpid(),
            time_skipping=self.time_skipping,
            ui_port=self.ui_port,
            temporal=self.temporal.state,
            postgres=self.postgres.state,
        )
        if state != self.published:
            state.write(self.home.state)
            self.published = state

    def choose_ports(self) -> None:
        """Those of last time, so that open connections find their server again, unless somebody else has taken them."""
        remembered = read_json(self.home.ports) or {}
        chosen: dict[str, int] = {}
        ours = {server.port for server in self.servers if server.process is not None}
        if self.temporal.process is not None and self.ui_port is not None:
            ours.add(self.ui_port)
        for name in ("temporal", "postgres", "ui"):
            port = remembered.get(name)
            if not isinstance(port, int) or not (port in ours or port_is_free(port)):
                port = free_port(set(chosen.values()))
            chosen[name] = port
        self.temporal.port, self.postgres.port = chosen["temporal"], chosen["postgres"]
        self.ui_port = chosen["ui"] if self.with_ui else None
        if chosen != remembered:
            write_json(self.home.ports, chosen)

    def clear_leftovers(self) -> None:
        """Servers of a supervisor that was killed: gone by themselves on Linux, to be ended by us elsewhere."""
        previous = SupervisorState.read(self.home.previous_state)
        for server in self.servers:
            lock = self.home.server_lock(server.name)
            leftover: int | None = getattr(previous, server.name).pid if previous else None
            signals = [server.stop_signal, signal.SIGKILL]
            while signals and is_locked(lock):
                if leftover is not None and runs_on(leftover, self.home.path):
                    say(f"{server.name}: ending {leftover}, left by a killed supervisor")
                    os.kill(leftover, signals[0])
                signals.pop(0)
                deadline = time.monotonic() + LEFTOVER_GRACE
                while is_locked(lock) and time.monotonic() < deadline:
                    time.sleep(SHORT_TICK)
        self.home.previous_state.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--lock", type=int, required=True, help="descriptor that holds supervisor.lock")
    parser.add_argument("--postgres", type=Path, required=True)
    parser.add_argument("--temporal", type=Path, required=True)
    parser.add_argument("--time-skipping", action="store_true")
    parser.add_argument("--ui", action="store_true")
    asked = parser.parse_args()
    os.set_inheritable(asked.lock, False)
    os.umask(0o077)
    home = Home(asked.home)
    for name in ("temporal", "postgres"):
        log = home.log(name)
        if log.exists() and log.stat().st_size > LARGEST_LOG:
            log.replace(log.with_suffix(".log.1"))
    say(f"supervising {home.path}")
    Supervisor(
        home,
        Postgres(home, asked.postgres),
        TemporalServer(home, asked.temporal, asked.time_skipping),
        ui=asked.ui,
    ).run()


if __name__ == "__main__":
    main()
