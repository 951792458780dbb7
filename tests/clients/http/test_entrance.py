"""How one comes in: the link that a server prints, the token behind it, and what those see who do not have it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import sys
from pathlib import Path

import httpx
import pytest
from starlette.datastructures import Headers

from clients.commands.context import CommandError
from clients.http.access.callers import Callers
from clients.http.access.security import Trust
from clients.http.access.token import WITHOUT, entrance, kept_token
from clients.own_modules import python_path
from clients.runs.service.servers import Servers
from tests.support.engines import Engines
from tests.support.http_api import TOKEN

LIST = "/v1/private/optimizations"


def test_the_token_is_made_once_and_read_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / ".ratchet" / "serve.token"
    first = kept_token(file)
    assert len(first) >= 40
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    assert kept_token(file) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {left.name for left in file.parent.iterdir() if left.is_file()} == {"serve.token", ".gitignore"}
    file.unlink()
    assert kept_token(file) != first


def test_loopback_is_not_open_unless_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATCHET_SERVE_TOKEN", raising=False)
    usual = entrance(tmp_path, "127.0.0.1", (), no_token=False)
    assert usual.trust.token is not None
    assert usual.link("http://127.0.0.1:1") == f"http://127.0.0.1:1/?token={usual.trust.token}"
    asked = entrance(tmp_path, "127.0.0.1", (), no_token=True)
    assert (asked.trust.token, asked.link("http://127.0.0.1:1")) == (None, "http://127.0.0.1:1")
    for no_token in (True, False):
        with pytest.raises(CommandError, match="RATCHET_SERVE_TOKEN"):
            entrance(tmp_path, "0.0.0.0", (), no_token=no_token)


def test_a_token_of_the_environment_is_used_and_never_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_SERVE_TOKEN", TOKEN)
    given = entrance(tmp_path, "127.0.0.1", (), no_token=False)
    assert (given.trust.token, given.link("http://127.0.0.1:1")) == (TOKEN, "http://127.0.0.1:1")
    with pytest.raises(CommandError, match="contradict"):
        entrance(tmp_path, "127.0.0.1", (), no_token=True)


async def test_the_link_lets_in_and_leaves_no_token_in_the_address(guarded_url: str) -> None:
    async with httpx.AsyncClient(base_url=guarded_url) as browser:
        opened = await browser.get("/", params={"token": TOKEN})
        assert (opened.status_code, opened.headers["location"], opened.headers["cache-control"]) == (303, "/", "no-store")
        assert TOKEN not in opened.headers["set-cookie"]
        assert (await browser.get(LIST)).status_code == 200
    async with httpx.AsyncClient(base_url=guarded_url) as browser:
        refused = await browser.get("/", params={"token": "a-token-that-is-not-ours"})
        assert (refused.status_code, "set-cookie" in refused.headers) == (303, False)
        assert (await browser.get(LIST)).status_code == 401


@pytest.mark.parametrize("options", [(), ("--no-token",)])
async def test_a_neighbour_on_loopback_starts_and_reads_nothing(
    engines: Engines, tmp_path: Path, options: tuple[str, ...]
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "RATCHET_"))}
    environment |= {
        "DATABASE_URL": engines.addresses.database_url,
        "TEMPORAL_ADDRESS": engines.addresses.temporal_address,
        "PYTHONPATH": python_path(),
    }
    command = [sys.executable, "-m", "clients.cli", "--home", str(tmp_path), "serve", "--port", "0", *options]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=pipe, stderr=pipe)
    try:
        assert process.stdout is not None and process.stderr is not None
        async with asyncio.timeout(60):
            said = (await process.stdout.readline()).decode()
        found = re.search(r"(http://127\.0\.0\.1:\d+)(/\?token=\S+)?", said)
        assert found is not None
        async with httpx.AsyncClient(base_url=found[1], timeout=30) as neighbour:
            if options:
                assert (await neighbour.get(LIST)).status_code == 200
                assert (await process.stderr.readline()).decode().strip() == WITHOUT
                return
            assert (await neighbour.get(LIST)).status_code == 401
            assert (await neighbour.post(LIST, json={})).status_code == 401
            assert (await neighbour.get(found[2], follow_redirects=True)).status_code == 200
            assert (await neighbour.get(LIST)).status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()


@pytest.mark.parametrize(
    ("token", "known"), [(TOKEN, "by a holder of the server's token"), (None, "by anybody on that machine")]
)
async def test_the_audit_log_does_not_take_a_name_for_a_proof(servers: Servers, token: str | None, known: str) -> None:
    callers = Callers(Trust.of("127.0.0.1", token), servers.reader.access_tokens, servers.reader.teams)
    caller = await callers.of(Headers({"Authorization": f"Bearer {token}"}))
    assert caller.through == f"HTTP, {known}"
