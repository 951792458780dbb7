"""What the tutorials have their readers write passes the check, as it is written, in an empty directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clients.checks.findings import check_spec
from tests.support.command_bench import Bench
from tests.support.documents import ROOT, files_of

TUTORIALS = ROOT / "docs" / "tutorials"
TICKETS = ROOT / "clients" / "demo" / "example" / "tickets.jsonl"


def written(directory: Path, *names: str) -> Path:
    """The files of some tutorials, as a reader has them."""
    for name in names:
        for path, content in files_of((TUTORIALS / name).read_text(encoding="utf-8")).items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(content, encoding="utf-8")
    return directory


@pytest.mark.parametrize(
    ("tutorials", "spec"),
    [
        (("compress-a-prompt.md",), "shorter/spec.yaml"),
        (("tune-a-retrieval-pipeline.md",), "spec.yaml"),
        (("write-an-optimizer.md",), "spec.yaml"),
        (("tune-a-retrieval-pipeline.md", "put-it-into-ci.md"), "guard.yaml"),
    ],
    ids=lambda given: given if isinstance(given, str) else given[-1],
)
async def test_the_spec_of_a_tutorial_passes_the_check(tmp_path: Path, tutorials: tuple[str, ...], spec: str) -> None:
    written(tmp_path, *tutorials)
    if spec.startswith("shorter"):
        shutil.copy(TICKETS, tmp_path / "shorter")
    checked = await check_spec(tmp_path / spec, own_worker=False, endpoints=False)
    assert [finding.told(checked.path) for finding in checked.errors] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tutorials", "spec"),
    [
        (("tune-a-retrieval-pipeline.md",), "spec.yaml"),
        (("write-an-optimizer.md",), "spec.yaml"),
        (("tune-a-retrieval-pipeline.md", "put-it-into-ci.md"), "guard.yaml"),
    ],
    ids=lambda given: given if isinstance(given, str) else given[-1],
)
def test_a_tutorial_that_needs_no_model_runs_as_its_reader_runs_it(bench: Bench, tutorials: tuple[str, ...], spec: str) -> None:
    written(bench.directory, *tutorials)
    done = bench.ratchet("run", spec, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Termination:" in done.stdout


@pytest.mark.slow
def test_the_optimizer_of_the_tutorial_passes_its_own_tests(tmp_path: Path) -> None:
    written(tmp_path, "write-an-optimizer.md")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_halving.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert "2 passed" in done.stdout, done.stdout
