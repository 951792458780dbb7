"""What a neighbour on the same machine may not read, and what a web page may not do to the embedded servers."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from pathlib import Path

import httpx
import psutil
import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from clients.embedded.home import Home, nearest_home
from clients.embedded.stack import StackAddresses, embedded_stack, stack_state


def open_to_others(folder: Path) -> list[str]:
    """Everything under a folder, itself included, that somebody else may look at."""
    found = [folder, *(Path(parent, name) for parent, folders, files in os.walk(folder) for name in [*folders, *files])]
    return [str(path) for path in found if path.lstat().st_mode & 0o077 and not path.is_symlink()]


async def test_nothing_in_the_home_is_read_by_others_not_even_what_an_earlier_version_left(tmp_path: Path) -> None:
    home = Home.at(tmp_path / ".ratchet")
    loose = os.umask(0)
    try:
        home.logs.mkdir(parents=True)
        home.stack.mkdir()
        for left in (home.logs / "worker.out", home.logs / "worker.log.1", home.stack / "state.json"):
            left.write_text("a sample")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "clients.cli", "--home", str(home.path), "list", stdout=asyncio.subprocess.DEVNULL
        )
        assert await process.wait() == 0
        async with embedded_stack(home.path, ui=False):
            assert open_to_others(home.path) == []
        assert open_to_others(home.path) == []
    finally:
        os.umask(loose)


def test_a_folder_of_the_users_own_is_not_closed_only_what_is_ours_in_it(tmp_path: Path) -> None:
    mine = tmp_path / "shared"
    mine.mkdir()
    mine.chmod(0o755)
    (mine / "notes.txt").touch()
    (mine / "notes.txt").chmod(0o644)
    Home.at(mine).make()
    assert stat.S_IMODE(mine.stat().st_mode) == 0o755
    assert stat.S_IMODE((mine / "notes.txt").stat().st_mode) == 0o644
    assert open_to_others(mine / "stack") == open_to_others(mine / "logs") == []


def test_the_home_is_found_from_below_and_is_not_somebody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "project" / "specs" / "old"
    below.mkdir(parents=True)
    assert nearest_home(below) == below / ".ratchet"
    mine = Home.at(tmp_path / "project" / ".ratchet")
    mine.make()
    assert nearest_home(below) == mine.path
    assert (mine.path / ".gitignore").read_text() == "*\n"
    monkeypatch.setattr(os, "getuid", lambda: mine.path.stat().st_uid + 1)
    assert nearest_home(below) == below / ".ratchet"


def listening_ports(pid: int) -> set[int]:
    return {found.laddr.port for found in psutil.Process(pid).net_connections("tcp") if found.status == psutil.CONN_LISTEN}


async def test_a_web_page_cannot_start_or_end_runs_on_the_embedded_temporal(stack: StackAddresses) -> None:
    temporal = stack_state(stack.home).temporal_pid
    assert temporal is not None
    client = await Client.connect(stack.temporal_address)
    answers: list[int] = []
    path = "/api/v1/namespaces/default/workflows/from-a-web-page"
    body = '{"workflowType": {"name": "OptimizationWorkflow"}, "taskQueue": {"name": "nobody"}}'
    for port in sorted(listening_ports(temporal)):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as browser:
            try:
                answer = await browser.post(
                    path, content=body, headers={"Content-Type": "text/plain", "Origin": "https://evil.example"}
                )
            except httpx.HTTPError:
                continue  # what speaks gRPC only
            answers.append(answer.status_code)
    assert 403 in answers and 200 not in answers
    with pytest.raises(RPCError, match="not found"):
        await client.get_workflow_handle("from-a-web-page").describe()
