"""The end of a process: all that an interpreter does at its end, but for taking itself apart."""

from __future__ import annotations

import subprocess
import sys

from tests.support.forked_commands import ROOT

ENDING = """
import atexit, sys, threading
from ratchet._processes.process_end import end_process

class Native:
    def __del__(self): print("taken apart", flush=True)

kept = Native()
kept.itself = kept
atexit.register(print, "at exit")
threading.Thread(target=lambda: (threading.main_thread().join(), print("a thread"))).start()
print("written")
end_process({code})
"""


BUFFERED = {"PYTHONPATH": str(ROOT)}


def ended(code: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ENDING.format(code=code)]
    return subprocess.run(command, env=BUFFERED, capture_output=True, text=True, check=False, timeout=60)


def test_threads_and_what_was_to_be_done_are_waited_for_and_nothing_is_taken_apart() -> None:
    done = ended(5)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (5, ["written", "a thread", "at exit"], "")


def test_what_cannot_be_written_any_more_changes_no_exit_code() -> None:
    command = [sys.executable, "-c", ENDING.format(code=0)]
    with subprocess.Popen(command, env=BUFFERED, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (0, b"")
