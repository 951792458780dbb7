"""Who is gone, and what it had open: told by a lock that the system gives back when a process ends, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from activities.open_activities import OpenActivities

pytestmark = pytest.mark.skipif(not Path("/proc/sys/kernel/random/boot_id").exists(), reason="/proc, which names the system")

WORKER = """
import sys
from pathlib import Path
from activities.open_activities import OpenActivities
mine = OpenActivities(Path(sys.argv[1]), sys.argv[2])
with mine.alive(), mine.noted(b"token of an attempt"):
    print("open", flush=True)
    sys.stdin.read()
"""


def worker(folder: Path, servers: str = "here") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), servers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def tokens_of_the_gone(looking: OpenActivities) -> list[bytes]:
    with looking.gone() as found:
        return [token for one in found for token in one.tokens.values()]


def test_a_killed_worker_is_gone_and_one_that_stands_still_or_ended_is_not(tmp_path: Path) -> None:
    looking = OpenActivities(tmp_path, "here")
    ended, killed = worker(tmp_path), worker(tmp_path)
    killed.send_signal(signal.SIGSTOP)
    assert tokens_of_the_gone(looking) == [], "both live"
    ended.communicate()
    killed.kill()
    killed.wait()
    with looking.gone() as found:
        [gone] = found
        assert list(gone.tokens.values()) == [b"token of an attempt"]
        assert tokens_of_the_gone(OpenActivities(tmp_path, "here")) == [], "somebody else is at it"
    assert tokens_of_the_gone(looking) == [b"token of an attempt"], "nobody has given it up yet"
    looking.forget(gone)
    assert list(tmp_path.iterdir()) == []


def test_workers_of_other_servers_and_machines_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = worker(tmp_path, "elsewhere")
    killed.kill()
    killed.wait()
    assert tokens_of_the_gone(OpenActivities(tmp_path, "here")) == []
    monkeypatch.setattr("activities.open_activities._machine", lambda: "another")
    assert tokens_of_the_gone(OpenActivities(tmp_path, "elsewhere")) == []
    monkeypatch.undo()
    assert tokens_of_the_gone(OpenActivities(tmp_path, "elsewhere")) == [b"token of an attempt"]


def test_what_a_worker_has_open_is_nobody_elses_to_read(tmp_path: Path) -> None:
    mine = OpenActivities(tmp_path / "open", "here")
    with mine.alive(), mine.noted(b"x"):
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "open").iterdir()} == {0o600}
        assert (tmp_path / "open").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "open").iterdir()) == []
