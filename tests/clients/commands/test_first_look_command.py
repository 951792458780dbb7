"""A first look at the baseline's answers: told everywhere, asked about on a terminal, and the end where that is wanted."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.command_bench import Bench

HOPELESS = [{"n": 50 + number} for number in range(6)]
"""Whatever is tried, the answer is no."""


def test_in_ci_a_hopeless_measurement_ends_with_2_and_elsewhere_it_is_told_in_every_report(bench: Bench) -> None:
    bench.write(name="hopeless", inputs=HOPELESS)
    strict = bench.ratchet("run", "spec.yaml", "--strict")
    assert strict.returncode == 2, strict.stderr
    told = strict.stdout.splitlines()
    first = told.index("First look at the baseline's answers:")
    assert " Iteration 0: " in told[first - 1]
    assert told[first + 2].startswith('  Input       {"n": 5')
    assert told[first + 3 : first + 5] == ["  Expected    yes", "  Answer      no"]
    assert "! None of the 6 answers passes: look whether exact fits what the target" in strict.stdout
    assert "Ended after the first look" in strict.stdout
    assert bench.calls == ["1"] * 6
    ended = next(line for line in told if line.startswith("Started")).split()[1]
    assert bench.ratchet("replay", ended).returncode == 0

    done = bench.ratchet("run", "spec.yaml", "--retry-failed")
    assert done.returncode == 0, done.stderr
    assert "First look:       None of the 6 answers passes" in done.stdout
    run_id = next(line for line in done.stdout.splitlines() if line.startswith("Started")).split()[1].rstrip(",")
    assert bench.facts("status", run_id)["first_look"][0].startswith("None of the 6 answers passes")
    for form in ("markdown", "json"):
        assert "None of the 6 answers passes" in bench.ratchet("report", run_id, "--format", form).stdout
    exported = json.loads(bench.ratchet("export", run_id, "--format", "history-json").stdout)
    assert exported["result"]["first_look"][0].startswith("None of the 6 answers passes")
    assert bench.ratchet("run", "spec.yaml", "--strict").returncode == 2


@contextmanager
def at_a_terminal(bench: Bench, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A command that has somebody to ask."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-m", "clients.cli", *arguments, "--home", str(bench.home)]
    environment = {**bench.environment(), "COLUMNS": "100", "TERM": "dumb"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=bench.directory, env=environment) as process:
        os.close(theirs)
        try:
            yield ours, process
        finally:
            process.kill()
            os.close(ours)


def read_to(terminal: int, told: str) -> str:
    said = ""
    while told not in said:
        try:
            part = os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # the command has ended
            part = ""
        assert part, f"{told!r} was never said, but:\n{said}"
        said += part
    return said


def test_on_a_terminal_it_asks_before_it_goes_on(bench: Bench) -> None:
    bench.write(name="asked", inputs=HOPELESS, stop={"max_rounds": 1})
    with at_a_terminal(bench, "run", "spec.yaml") as (terminal, process):
        said = read_to(terminal, "Go on? [y/N]")
        assert "! None of the 6 answers passes" in said
        assert bench.calls == ["1"] * 6
        os.write(terminal, b"y\n")
        read_to(terminal, "Termination:")
        assert process.wait() == 0
    assert len(bench.calls) > 6

    bench.write(name="declined", inputs=HOPELESS)
    with at_a_terminal(bench, "run", "spec.yaml") as (terminal, process):
        read_to(terminal, "Go on? [y/N]")
        os.write(terminal, b"\n")
        read_to(terminal, "Termination:")
        assert process.wait() == 4
