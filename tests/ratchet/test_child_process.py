"""Child processes: begun without a moment in which a lock of another thread could hold them up."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ratchet._processes.child_process import begin_piped
from tests.support.forked_commands import ROOT

ECHO = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)\nsys.exit(3)"
BEGUN = """
import asyncio, os, sys
import uvloop
from ratchet._processes.child_process import begin_piped

os.register_at_fork(after_in_child=lambda: os._exit(7))

async def begin():
    child = await begin_piped(sys.executable, "-c", "print('begun')")
    print((await child.stdout.readline()).decode().strip(), await child.wait())

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(begin())
"""


async def test_it_is_spoken_to_by_lines_and_ends_with_its_input() -> None:
    child = await begin_piped(sys.executable, "-c", ECHO)
    for said in (b"one\n", b"two\n"):
        child.stdin.write(said)
        await child.stdin.drain()
        assert await child.stdout.readline() == said.upper()
    assert child.returncode is None
    child.stdin.close()
    assert await child.wait() == child.returncode == 3
    assert await child.stdout.read() == b""


async def test_it_can_be_killed_with_what_it_has_started() -> None:
    child = await begin_piped(
        sys.executable,
        "-c",
        "import subprocess, sys; subprocess.Popen(['sleep', '600']); print('up', flush=True); sys.stdin.read()",
    )
    assert await child.stdout.readline() == b"up\n"
    child.kill()
    assert await child.wait() == -9
    assert await child.stdout.read() == b"", "nobody holds its output open"


async def test_a_line_that_is_too_long_is_refused_and_a_program_that_is_not_there_is_told() -> None:
    child = await begin_piped(sys.executable, "-c", "print('x' * 100)", longest_line=10)
    with pytest.raises(ValueError, match="limit"):
        await child.stdout.readline()
    await child.wait()
    with pytest.raises(FileNotFoundError):
        await begin_piped("/nowhere/at/all")


def test_nothing_of_pythons_runs_between_fork_and_exec() -> None:
    """uvloop's own way runs what is registered there, and waits for locks of threads that the child does not have."""
    done = subprocess.run([sys.executable, "-c", BEGUN], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "begun 0\n", done.stderr
