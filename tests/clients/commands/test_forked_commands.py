"""What forks the tests' commands outlives whoever asks it: they are killed at any moment."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from tests.support.forked_commands import NUMBER, origin, run_forked

ASKED = json.dumps(
    {"command": ["clients.cli", "--version"], "directory": "/", "environment": {}, "own_session": False, "parent": 1}
)
SAID = NUMBER.pack(len(ASKED)) + ASKED.encode()


@pytest.mark.parametrize("said", [0, 2, 4, len(SAID) - 1, len(SAID)])
def test_who_is_killed_while_it_asks_takes_nothing_down(said: int, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as killed, open(os.devnull, "r+b") as nothing:
        killed.connect(origin().asked_by_fronts)
        if said:
            socket.send_fds(killed, [SAID[: min(said, NUMBER.size)]], [nothing.fileno()] * 3)
        if said > NUMBER.size:
            killed.sendall(SAID[NUMBER.size : said])
    done = run_forked(["--version"], tmp_path, {}, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"ratchet")
