"""Workers as child processes: started again when they die, given up when they cannot start, never left behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from clients.runs.service import workers
from clients.runs.service.workers import WorkerProcess, Workers
from tests.support.loaded_modules import loaded_by

PATIENCE = 30.0


@pytest.fixture
def worker_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], WorkerProcess]:
    """A worker process that runs the given code instead of serving."""
    monkeypatch.setattr(workers, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(workers, "LONGEST_PAUSE", 0.02)

    def make(code: str) -> WorkerProcess:
        (tmp_path / "worker.py").write_text(
            f"import os, signal, sys, time\nfrom pathlib import Path\nHERE = Path({str(tmp_path)!r})\n{code}"
        )
        return WorkerProcess("worker", "all", {"PYTHONPATH": str(tmp_path)}, tmp_path / "logs")

    return make


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_worker_that_dies_is_started_again(worker_that: Callable[[str], WorkerProcess], tmp_path: Path) -> None:
    worker = worker_that(
        "if not (HERE / 'again').exists(): (HERE / 'again').touch(); os._exit(9)\n(HERE / 'up').touch()\ntime.sleep(60)\n"
    )
    keeping = asyncio.create_task(worker.keep_alive())
    await until((tmp_path / "up").exists)
    assert (worker.deaths, worker.hopeless.is_set()) == (1, False)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await worker.stop()
    assert worker.process is not None
    assert not psutil.pid_exists(worker.process.pid)


async def test_a_worker_that_never_starts_is_given_up_with_its_last_words(worker_that: Callable[[str], WorkerProcess]) -> None:
    worker = worker_that("sys.exit('the database has no luck')\n")
    keeping = asyncio.create_task(worker.keep_alive())
    async with asyncio.timeout(PATIENCE):
        error = await Workers([worker]).until_hopeless()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await worker.stop()
    assert "the database has no luck" in str(error)
    assert error.code == 1


async def test_a_worker_that_does_not_listen_is_killed_with_all_it_started(
    worker_that: Callable[[str], WorkerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "STOPPING_TAKES_AT_MOST", 0.1)
    worker = worker_that(
        "import subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(60)'])\n"
        "(HERE / 'draft').write_text(str(child.pid))\n(HERE / 'draft').rename(HERE / 'child')\ntime.sleep(60)\n"
    )
    keeping = asyncio.create_task(worker.keep_alive())
    await until((tmp_path / "child").exists)
    child = int((tmp_path / "child").read_text())
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await worker.stop()
    await until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_a_worker_loads_no_statistics_when_it_starts() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by("import worker")}
    assert "temporalio" in loaded and not loaded & {"numpy", "scipy", "optuna", "openai"}


def test_the_first_trial_that_ends_loads_statistics_outside_of_the_loop() -> None:
    loaded_by(
        "import asyncio; from types import SimpleNamespace; from tests.support.imported_modules import Watch, loaded\n"
        "sys.meta_path.insert(0, Watch())\n"
        "from store.write.trials import Trials\n"
        "assert not loaded, loaded\n"
        "ended = SimpleNamespace(objective_score=0.5)\n"
        "try: asyncio.run(Trials(None).record(ended, None, [0.25, 0.75, 0.5]))\n"
        "except AttributeError as error: assert 'transaction' in str(error), error\n"
        "assert loaded == {'numpy': 'elsewhere', 'scipy': 'elsewhere'}, loaded"
    )
