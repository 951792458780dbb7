"""The example's project of experiments, as its README runs it: under xdist, over servers that its workers share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from clients.embedded.stack import StackAddresses
from tests.support.forked_commands import run_forked
from tests.support.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "pytest"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__", "experiments", ".*"))
    return tmp_path / "project"


def environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return kept | {"RATCHET_HOME": str(home), "PYTHONPATH": str(ROOT)}


def test_a_regression_fails_experiments_by_the_names_of_its_samples(project: Path, unserved_stack: StackAddresses) -> None:
    home = unserved_stack.home

    def pytest_says(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments)
        return subprocess.run(command, cwd=project, env=environment(home), capture_output=True, text=True, check=False)

    stored = pytest_says("--ratchet=measure", "--ratchet-renew")
    assert (stored.returncode, "2 passed, 2 skipped" in stored.stdout) == (0, True), stored.stdout
    baseline = yaml.safe_load((project / "experiments/specs/ticket-sorting.yaml").read_text())
    assert (baseline["score"], len(baseline["samples"])) == (0.7, 80)

    shutil.rmtree(project / "experiments")
    declared = (project / "test_support.py").read_text()
    with_fixture = declared.replace(
        "measure_sorting(use_case: TicketSorting,", "measure_sorting(use_case: TicketSorting, word: str,"
    )
    (project / "test_support.py").write_text(with_fixture)
    (project / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef word():\n    return 'word'\n")
    # One process begins with the optimization, the other with the measurement that it needs.
    first = pytest_says("--ratchet=optimize", "--ratchet-renew", "--ratchet-new", "-n", "2", "--dist", "load")
    assert (first.returncode, "4 passed" in first.stdout) == (0, True), first.stdout
    shown = run_forked(("list", "--json", "--home", str(home)), project, environment(home), PATIENCE_SECONDS)
    runs = [run["run_id"] for run in json.loads(shown.stdout)["runs"]]
    assert sum(run.startswith("measure-sorting-") for run in runs) == 2, "one before the fixture, and one for the session"

    shutil.rmtree(project / "experiments" / "optimizations")
    whole = pytest_says("--ratchet=optimize", "-n", "2")
    assert (whole.returncode, "4 passed" in whole.stdout) == (0, True), whole.stdout
    assert "not worse: 0.70 → 0.70" in whole.stdout
    [history] = (project / "experiments/optimizations/ticket-sorting").iterdir()
    found = yaml.safe_load(history.read_text())
    assert found["fixedFactors"] == {"most_words": 40}
    assert (found["treatmentFactorName"], found["iterations"][0]["iterationNumber"]) == ("instructions", 0)
    assert len(found["iterations"]) <= 8
    assert found["bestIteration"]["score"] > 0.9
    assert len(list((project / "experiments/explorations/ticket-sorting").iterdir())) == 3

    code = (project / "support.py").read_text()
    (project / "support.py").write_text(code.replace("billing: refund, charged", "billing: refund"))
    broken = pytest_says("--ratchet=measure", "-n", "2", "--junitxml=junit.xml")
    assert (broken.returncode, "1 failed, 1 passed, 2 skipped" in broken.stdout) == (1, True), broken.stdout
    [case] = ElementTree.parse(project / "junit.xml").iterfind(".//testcase[@name='measure_sorting']")
    told = case.findtext("failure") or ""
    assert "measure measure_sorting: worse: 0.70 → 0.60, difference -0.10, 95% CI" in told
    assert "8 samples got worse:" in told and "changed factors: instructions" in told
    assert "t01 1.00 → 0.00, broken: right_queue: does not hold: The ticket is in the queue" in told
    assert "Traceback" not in told

    (project / "test_support.py").write_text(declared)
    command = ("experiments", ".", "--run", "measure-*", "--home", str(home))
    told_again = run_forked(command, project, environment(home), PATIENCE_SECONDS)
    assert (told_again.returncode, "worse: 0.70 → 0.60" in told_again.stdout.decode()) == (3, True), told_again.stderr
