"""The wheel, installed into a fresh environment: the library alone, the demo, and a Temporal project whose modules are called
as Ratchet's rooms are.

What the wheel needs comes from whatever index pip is set up with, by the lock's hashes. Without one these tests skip by name,
but never in CI.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from deploy.core_lock import LEFT_OUT, named_in, part_of, roots_of
from tests.support.patience import until
from tests.support.public_names import MODULES, public_names
from tests.system.packaging.temporal_project import FILES
from tests.system.packaging.typed_project import PYRIGHT, USE

ROOT = Path(__file__).parents[3]
UNREACHABLE = ("No matching distribution found", "Max retries exceeded", "NewConnectionError", "Temporary failure")

pytestmark = pytest.mark.timeout(1500)


@dataclass(frozen=True)
class Environment:
    """A virtual environment with nothing of the checkout in it."""

    folder: Path

    def run(self, *command: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RATCHET_", "TEMPORAL_", "DATABASE_", "OPENAI_", "PYTHON", "VIRTUAL_ENV"))
        }
        program = str(self.folder / "bin" / command[0])
        return subprocess.run(
            [program, *command[1:]], cwd=cwd or self.folder, env=kept | variables, capture_output=True, text=True, check=False
        )

    def install(self, *arguments: str) -> None:
        """Install packages, or skip by name where there is no index to take them from."""
        done = self.run("python", "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", *arguments)
        if done.returncode and any(words in done.stderr for words in UNREACHABLE) and not os.environ.get("CI"):
            pytest.skip(f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr


def extras_of_the_readme() -> list[str]:
    extras: str
    [extras] = re.findall(r"pip install 'ratchet-optimizer\[(.+?)\]'", (ROOT / "README.md").read_text())
    return extras.split(",")


def made(folder: Path) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return Environment(folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the files of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "benchmarks/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    building = ("pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder), ".")
    subprocess.run([sys.executable, "-m", *building], cwd=source, check=True)
    [built] = folder.glob("*.whl")
    assert built.name.startswith("ratchet_optimizer-")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with the extras that the README says."""
    folder = tmp_path_factory.mktemp("environment")
    extras = extras_of_the_readme()
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = named_in(package for extra in extras for package in optional[extra])
    part = part_of(
        (ROOT / "requirements.lock").read_text(), wanted | roots_of((ROOT / "pyproject.toml").read_text(), "library")
    )
    (folder / "engine.lock").write_text(part)
    environment = made(folder / "venv")
    environment.install("--require-hashes", "--requirement", str(folder / "engine.lock"))
    environment.install("--no-index", f"ratchet-optimizer[{','.join(extras)}] @ {wheel.as_uri()}")
    done = environment.run("python", "-m", "pip", "check")
    assert done.returncode == 0, done.stdout
    return environment


def test_the_library_alone_is_lean(wheel: Path, tmp_path: Path) -> None:
    environment = made(tmp_path / "venv")
    part = subprocess.run([sys.executable, ROOT / "deploy/core_lock.py", "library"], capture_output=True, text=True, check=True)
    (tmp_path / "library.lock").write_text(part.stdout)
    environment.install("--require-hashes", "--requirement", str(tmp_path / "library.lock"))
    environment.install("--no-index", str(wheel))
    listed = json.loads(environment.run("python", "-m", "pip", "list", "--format", "json").stdout)
    packages = {package["name"] for package in listed} - {"pip", "setuptools"}
    assert packages <= {
        *("ratchet-optimizer", "pydantic", "pydantic_core", "PyYAML"),
        *("annotated-types", "typing_extensions", "typing-inspection"),
    }
    program = (
        "from ratchet.prompts import PromptTemplate\n"
        "from ratchet import Optimizer, Sample\n"
        "sections = [{'path': 'hello', 'kind': 'text', 'body': 'Hello {{input.name}}'}]\n"
        "template = PromptTemplate(name='mail/greeting', sections=sections)\n"
        "template = PromptTemplate.from_yaml(template.to_yaml())\n"
        "print(template.name, Sample('a', 1).id)\n"
    )
    done = environment.run("python", "-c", program)
    assert (done.stdout, done.stderr) == ("mail/greeting a\n", "")
    asked = environment.run("ratchet", "demo")
    assert asked.returncode == 1
    assert 'pip install "ratchet-optimizer[engine]"' in asked.stderr
    asked = environment.run("python", "-c", "import ratchet; ratchet.optimize")
    assert "ratchet.optimize needs the engine" in asked.stderr
    asked = environment.run("python", "-c", "import asyncio, ratchet.prompts as p; asyncio.run(p.open_store('postgres'))")
    assert "install ratchet-optimizer[postgres]" in asked.stderr


def test_a_temporal_project_with_all_of_our_names_is_checked_and_run(installed: Environment, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    checked = installed.run("ratchet", "check", "spec.yaml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    # Also when the project is on the import path, before everything that is installed.
    ran = installed.run("ratchet", "run", "spec.yaml", "--yes", "--json", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    run = json.loads(ran.stdout)
    assert (run["status"], run["baseline_score"], run["best_score"]) == ("completed", 0.25, 1.0)
    program = (
        "import ratchet; print(ratchet.optimize('spec.yaml').id, ratchet.measure('spec.yaml', target=lambda c, s: '').score)"
    )
    asked = installed.run("python", "-c", program, cwd=tmp_path)
    assert asked.stdout.split() == [run["optimization_id"], "0.0"], asked.stderr
    imported = installed.run("python", "-c", "import ratchet, worker, store; print(worker.__file__)", cwd=tmp_path)
    assert imported.stdout.strip() == str(tmp_path / "worker.py")


def test_type_checkers_of_strangers_know_every_name_and_every_keyword(installed: Environment, tmp_path: Path) -> None:
    names = [f"{module}.{name}" for module in MODULES for name in public_names(module)]
    (tmp_path / "use.py").write_text(USE)
    imports = "".join(f"import {module}\n" for module in MODULES)
    (tmp_path / "names.py").write_text(imports + "\n".join(f"reveal_type({name})" for name in names))
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    python = str(installed.folder / "bin" / "python")

    def told(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *command, "use.py", "names.py"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    checked = told("mypy", "--strict", "--no-incremental", "--python-executable", python)
    found = re.findall(r'Revealed type is "(.*)"', checked)
    assert [name for name, kind in zip(names, found, strict=True) if kind in ("Any", "Unknown")] == []
    checked = told("basedpyright", "--pythonpath", python)
    found = re.findall(r'information: Type of ".*" is "(.*)', checked)
    assert [name for name, kind in zip(names, found, strict=True) if kind.startswith(("Any", "Unknown"))] == []


SCRIPT = """\
import pathlib, time, ratchet
calls = pathlib.Path("calls")
def answer(configuration, sample):
    calls.write_text(calls.read_text() + "." if calls.exists() else ".")
    time.sleep(0.1)
    return "yes" if configuration["k"] > sample.input else "no"
rows = [{"input": n, "expected": "yes"} for n in range(8)]
result = ratchet.optimize(target=answer, configuration={"k": ratchet.integer(1, min=0, max=9)}, data=rows, scorer="exact",
                          stop={"max_rounds": 2}, execution={"concurrent_samples": 1})
print(result.status, result.score)
"""


def test_twelve_lines_optimize_a_function_and_leave_nothing_running(installed: Environment, tmp_path: Path) -> None:
    assert len(SCRIPT.splitlines()) <= 12
    (tmp_path / "script.py").write_text(SCRIPT)
    python = str(installed.folder / "bin" / "python")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}

    def begun() -> int:
        return len((tmp_path / "calls").read_text()) if (tmp_path / "calls").exists() else 0

    def left() -> list[str]:
        """What runs here: in this folder, or with data in it."""
        return [
            " ".join(process.info["cmdline"])
            for process in psutil.process_iter(["cmdline"])
            if any(str(tmp_path) in part for part in process.info["cmdline"] or ())
        ]

    for number in (signal.SIGKILL, signal.SIGINT):
        before = begun()
        with subprocess.Popen([python, "script.py"], cwd=tmp_path, env=kept, stderr=subprocess.PIPE) as process:
            until(lambda before=before, process=process: begun() > before + 2 or process.poll() is not None)  # type: ignore[misc]
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            process.send_signal(number)
        if number == signal.SIGINT:
            assert left() == [], "who is asked to stop waits until its servers have stopped"
    done = subprocess.run([python, "script.py"], cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1].startswith("completed "), done.stderr
    assert left() == []


def test_a_project_may_call_each_sample_in_a_process_of_its_own(installed: Environment, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace('ref: "activities:target"', 'ref: "activities:target", pool: process'))
    ran = installed.run("ratchet", "run", "spec.yaml", "--yes", "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["best_score"] == 1.0


def test_the_demo_runs_from_the_wheel_and_without_what_is_left_out_for_it(installed: Environment, tmp_path: Path) -> None:
    installed.run("python", "-m", "pip", "uninstall", "--yes", *LEFT_OUT["demo"])
    shown = installed.run("ratchet", "demo", cwd=tmp_path)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "run `ratchet dev`" in shown.stdout
    assert "ratchet_engine/clients/demo/example/spec.yaml" in shown.stdout
    (tmp_path / "spec.yaml").write_text(FILES["spec.yaml"])
    assert (
        "bpe-openai, rapidfuzz, uvloop, which runs may need"
        in installed.run("ratchet", "check", "spec.yaml", cwd=tmp_path).stderr
    )
    version = installed.run("ratchet", "--version").stdout
    assert version.startswith("ratchet-optimizer ")
