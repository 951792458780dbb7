"""kill -9 of a program that optimizes its own function, at random moments. The same lines, run again, end as if nothing had
happened.

`RATCHET_KILL_SEEDS` sets how many seeds are tried (1 by default, with two kills; the second seed has ten).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import asyncpg
import pytest

from clients.embedded.stack import StackAddresses
from tests.support.killed_runs import SEEDS
from tests.support.patience import until

ROOT = Path(__file__).parents[3]
PROGRAM = """\
import sys, time, pathlib, ratchet
def answer(configuration, sample):
    with pathlib.Path("calls").open("a") as calls:
        calls.write(f"{configuration['k']} {sample.id}\\n")
    time.sleep(0.02)
    return "yes" if configuration["k"] > sample.input else "no"
rows = [{"id": f"s{n}", "input": n, "expected": "yes"} for n in range(12)]
result = ratchet.optimize(name=sys.argv[1], target=answer, configuration={"k": ratchet.integer(1, min=0, max=40)}, data=rows,
                          scorer="exact", stop={"max_rounds": 6, "no_improvement": 0}, seed=int(sys.argv[2]),
                          execution={"concurrent_samples": 4}, home=sys.argv[3])
print(result.configuration, result.score, result.calls, [(t["configuration"], t["score"]) for t in result.trials()])
"""
CONCURRENT = 4


@contextmanager
def program(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(folder: Path, *arguments: str) -> str:
    with program(folder, *arguments) as process:
        told, complained = process.communicate(timeout=120)
    assert process.returncode == 0, complained
    return told


def calls_of(folder: Path) -> list[str]:
    calls = folder / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


async def stored(stack: StackAddresses, name: str) -> int:
    """How many answers of the run are in the store."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        query = "SELECT count(*) FROM outcomes o JOIN runs r USING (run_id) WHERE r.use_case = $1"
        return int(await connection.fetchval(query, name))
    finally:
        await connection.close()


def test_the_program_that_is_killed_is_one_of_twelve_lines() -> None:
    assert len(PROGRAM.splitlines()) <= 12


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_program_ends_like_an_undisturbed_one(seed: int, unserved_stack: StackAddresses, tmp_path: Path) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    undisturbed.mkdir()
    disturbed.mkdir()
    home, name = str(unserved_stack.home), f"killed-{seed}"
    expected = ended(undisturbed, "undisturbed", str(seed), home)
    in_all = len(calls_of(undisturbed))
    kills, in_flight, random = 10 if seed == 1 else 2, 0, Random(seed)
    for point in sorted(random.sample(range(1, in_all - CONCURRENT), kills)):
        with program(disturbed, name, str(seed), home) as process:
            until(lambda point=point, process=process: len(calls_of(disturbed)) >= point or process.poll() is not None)  # type: ignore[misc]
            process.send_signal(signal.SIGKILL)
        begun = calls_of(disturbed)
        answered = await stored(unserved_stack, name)
        in_flight += len(set(begun)) - answered
    told = ended(disturbed, name, str(seed), home)
    assert told == expected
    repeated = len(calls_of(disturbed)) - in_all
    # What was begun before an earlier kill, and not yet again, is in flight for the next one, too.
    assert 0 <= repeated <= min(in_flight, kills * CONCURRENT), f"{repeated} calls repeated, {in_flight} in flight"
    print(f"seed {seed}: {kills} kills, {repeated} calls repeated of {in_flight} in flight")
