"""`ratchet` run in a directory with a spec, the way a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from clients.embedded.stack import StackAddresses
from tests.support.forked_commands import ROOT, AttachedCommand, run_forked
from tests.support.patience import PATIENCE_SECONDS, until

MARK = "RATCHET_TEST_DIRECTORY"
"""In the environment of every process that a test starts, and of whatever those start."""
MINE = '''
"""A target that notes every call, and that waits for a gate where it is told to."""
import asyncio
import os
from pathlib import Path

HERE = Path(__file__).parent

async def target(configuration, sample, context):
    with (HERE / "calls").open("a") as calls:
        calls.write(f"{configuration['k']}\\n")
    if sample.input.get("dies") and not (HERE / "died").exists():
        (HERE / "died").touch()
        os._exit(9)
    if sample.input.get("raises"):
        print("looking for luck")
        raise RuntimeError("the target has no luck")
    while sample.input.get("waits") and configuration["k"] != 1 and not (HERE / "gate").exists():
        await asyncio.sleep(0.02)
    return "yes" if configuration["k"] > sample.input["n"] else "no"
'''


@dataclass
class Bench:
    """A directory with a spec, and `ratchet` run in it."""

    directory: Path
    home: Path
    started: list[AttachedCommand] = field(default_factory=list)
    servers: dict[str, str] = field(default_factory=dict)
    """Named by the environment; else the embedded ones of the home."""

    def write(self, name: str = "bench", **changes: Any) -> None:
        """A spec whose baseline answers at once; `inputs` changes what its samples say."""
        inputs: list[dict[str, Any]] = changes.pop("inputs", [{"n": 1}, {"n": 3}, {"n": 5}])
        spec = {
            "name": name,
            "configuration": {"k": {"value": 1, "change": "structured", "type": "integer", "min": 0, "max": 9}},
            "target": {"kind": "python", "ref": "mine:target"},
            "dataset": {"items": [{"input": one, "expected": "yes"} for one in inputs], "splits": "none"},
            "objective": "exact",
            "optimizer": {"proposer": {"kind": "step"}},
            "stop": {"max_rounds": 3},
            **changes,
        }
        (self.directory / "spec.yaml").write_text(yaml.safe_dump(spec))
        (self.directory / "mine.py").write_text(MINE)

    def ratchet(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        given = (*arguments, "--home", str(self.home))
        done = run_forked(given, self.directory, self.environment(), PATIENCE_SECONDS)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def facts(self, *arguments: str) -> dict[str, Any]:
        done = self.ratchet(*arguments, "--json")
        assert done.stdout, done.stderr
        facts: dict[str, Any] = json.loads(done.stdout)
        return facts

    def attached(self, *arguments: str) -> AttachedCommand:
        """A `ratchet` that stays."""
        command = AttachedCommand((*arguments, "--home", str(self.home)), self.directory, self.environment())
        self.started.append(command)
        return command

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        return {**kept, "PYTHONPATH": str(ROOT), MARK: str(self.directory), **self.servers}

    def open_gate(self) -> None:
        (self.directory / "gate").touch()

    @property
    def calls(self) -> list[str]:
        path = self.directory / "calls"
        return path.read_text().split() if path.exists() else []

    def until(self, condition: Callable[[], bool]) -> None:
        until(condition)

    def until_told(self, run_id: str, what: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until `ratchet status` says so. Each time is a command, which computes for longer than others wait."""
        until(lambda: what(self.facts("status", run_id)), seconds_between=0.5)

    def waits_in_round_1(self) -> bool:
        """Whether a candidate has been asked something; the gate keeps its answer back."""
        return any(k != "1" for k in self.calls)


def read_until(process: AttachedCommand, told: str) -> str:
    """What a process prints, up to a line that says something."""
    said = ""
    for line in process.stdout:
        said += line
        if told in line:
            return said
    raise AssertionError(f"{told!r} was never said, but:\n{said}")


def ending(process: AttachedCommand) -> tuple[int, str]:
    """How a process ended, and the rest of what it said."""
    return process.ending()


def processes_of(bench: Bench) -> list[str]:
    """Live processes that work on a bench's home (servers are given no environment of ours) or were started for it."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
            ours = str(bench.home) in command or process.environ().get(MARK) == str(bench.directory)
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(command)
        except psutil.Error:
            continue
    return found


def bench_in(directory: Path, home: Path) -> Iterator[Bench]:
    bench = Bench(directory, home)
    yield bench
    for process in bench.started:
        process.end()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Bench]:
    """A bench whose stack nobody else uses."""
    yield from bench_in(tmp_path, tmp_path / ".ratchet")


@pytest.fixture
def bench(tmp_path: Path, unserved_stack: StackAddresses) -> Iterator[Bench]:
    """A bench that joins a stack that runs already, without any worker."""
    yield from bench_in(tmp_path, unserved_stack.home)
