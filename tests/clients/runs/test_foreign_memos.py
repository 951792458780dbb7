"""What a workflow says of itself in Temporal names no code: neither to `dev`, nor to `watch`, nor to `retry`."""

from __future__ import annotations

import asyncio
import platform
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.embedded.stack import embedded_stack
from clients.temporal import connect
from tests.support.command_bench import MINE, Bench, bench_in, ending, read_until

THEIRS = """
from pathlib import Path
(Path(__file__).parent / 'ran').touch()
def target(configuration, sample, context):
    return 'yes'
"""
"""Notes that it was imported."""
NOT_HERE = "was not started from here"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Bench]:
    yield from bench_in(tmp_path, tmp_path / ".ratchet")


@pytest.fixture
def their_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "evil.py").write_text(THEIRS)
    return folder


def memo_of(folder: Path) -> dict[str, Any]:
    """What an earlier version noted of a run, and obeyed."""
    return {
        "ratchet": {
            "spec": f"{folder}/spec.yaml\x1b[2J",
            "host": platform.node(),
            "directory": str(folder),
            "task_queue": "optimization-evaluation-0123456789ab",
            "plugins": [
                {"field": "target.ref", "reference": "evil:target", "arguments": 3, "version": None, "optimizer": None}
            ],
        }
    }


async def plant(bench: Bench, folder: Path, run_id: str, *, ended: bool = False) -> None:
    """Start a run as any program on the machine may, with a memo that names code of its own."""
    bench.write("planted", target={"kind": "python", "ref": "evil:target"})
    spec = yaml.safe_load((bench.directory / "spec.yaml").read_text())
    spec["execution"] = {"evaluation_task_queue": "optimization-evaluation-0123456789ab"}
    async with embedded_stack(bench.home, ui=False) as stack:
        client = await connect(stack.temporal_address)
        handle = await client.start_workflow(
            "OptimizationWorkflow", spec, id=run_id, task_queue="optimization", memo=memo_of(folder)
        )
        if ended:
            await handle.terminate()


def test_dev_and_watch_import_nothing_that_a_memo_names(alone: Bench, their_folder: Path) -> None:
    asyncio.run(plant(alone, their_folder, "theirs"))
    dev = alone.attached("dev")
    said = read_until(dev, "Ctrl-C stops it")
    assert not (their_folder / "ran").exists()
    watching = alone.attached("watch", "theirs")
    seen = read_until(watching, NOT_HERE)
    assert not (their_folder / "ran").exists()
    assert said.count(f"theirs {NOT_HERE}") == 1
    assert "\x1b" not in said + seen
    for process in (watching, dev):
        process.send_signal(signal.SIGINT)
        ending(process)
    assert "theirs" in [run["run_id"] for run in alone.facts("list")["runs"]]
    assert not (their_folder / "ran").exists()


def test_a_retry_imports_nothing_that_a_memo_names(alone: Bench, their_folder: Path) -> None:
    alone.write("retried", inputs=[{"n": 1}], stop={"max_rounds": 1})
    run_id = alone.facts("run", "spec.yaml")["run_id"]
    asyncio.run(plant(alone, their_folder, run_id, ended=True))
    retried = alone.ratchet("retry", run_id, "--detach")
    assert not (their_folder / "ran").exists()
    assert retried.returncode in (0, 2), retried.stderr


def test_changed_code_is_not_even_imported_to_find_out(alone: Bench) -> None:
    alone.write("changed")
    run_id = alone.facts("run", "spec.yaml", "--detach")["run_id"]
    (alone.directory / "mine.py").write_text(MINE + "\n(HERE / 'imported').touch()\n")
    dev = alone.attached("dev")
    said = read_until(dev, "Ctrl-C stops it")
    assert f"has changed since {run_id} began" in said
    dev.send_signal(signal.SIGINT)
    ending(dev)
    assert "has changed since" in alone.ratchet("status", run_id).stdout
    assert not (alone.directory / "imported").exists()


def test_what_a_run_needs_is_noted_where_only_its_user_reads(alone: Bench) -> None:
    alone.write("noted")
    alone.facts("run", "spec.yaml", "--detach")
    [note] = (alone.home / "code").glob("*.json")
    assert note.stat().st_mode & 0o077 == (alone.home / "code").stat().st_mode & 0o077 == 0
    note.chmod(0o644)  # as whatever a repository brings along would be
    dev = alone.attached("dev")
    assert NOT_HERE in read_until(dev, "Ctrl-C stops it")
    dev.send_signal(signal.SIGINT)
    ending(dev)
    assert alone.calls == []
