"""A worker whose interpreter is held for good ends; one that works hard, or that sleeps, does not."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import asyncio, hashlib, re, time
from activities.plugins.blocked_interpreter import ended_when_blocked

def holds_it(): re.match(r"(a+)+$", "a" * 60 + "!")
def gives_it_back():
    until = time.process_time() + 3
    while time.process_time() < until:
        hashlib.sha256(bytes(10_000_000))

async def main():
    with ended_when_blocked(1.0):
        await asyncio.to_thread({work})
    print("alive", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("work", "code", "said"), [("holds_it", -signal.SIGPROF, ""), ("gives_it_back", 0, "alive"), ("lambda: None", 0, "alive")]
)
def test_only_an_interpreter_that_is_never_given_back_ends_its_process(work: str, code: int, said: str) -> None:
    program = PROGRAM.replace("{work}", work)
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (code, said), ended.stderr
