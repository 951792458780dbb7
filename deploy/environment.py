"""Install into .venv what a use of Ratchet's checkout needs, pinned by the lock, and show how far it is.

python deploy/environment.py demo   what `ratchet demo` needs
python deploy/environment.py dev    all that runs need, and the page
python deploy/environment.py all    everything, development tools and tests too

Bytecode is made of what is used only: of everything it would take as long as the rest, and a tenth of the space.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

from core_lock import ROOT, entries, part_of, roots_of

ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "python"
PIP = (str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input")
PACKAGE = re.compile(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)")
BYTECODE = """
import importlib, py_compile, sys
for name in ("ratchet.prompts", "clients.cli", "clients.runs.start", "clients.demo.__main__", "worker", "openai"):
    importlib.import_module(name)
for file in [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]:
    if file.startswith(sys.prefix) and file.endswith(".py"):
        py_compile.compile(file, quiet=1)
"""
"""Run within the environment. Some set PYTHONDONTWRITEBYTECODE; then every process would compile all it imports."""

MOST_SIDE_BY_SIDE = 4
"""Processes that install."""

LINES_OF_PROGRESS = 10
"""How many lines tell of the progress where there is no terminal."""


def lock_of(use: str) -> str:
    """Return the part of the lock that is installed."""
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    if use == "all":
        return lock
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    return part_of(lock, roots_of(project, use) | roots_of(project, "build"))


def install(use: str) -> int:
    """Make the environment if there is none, and install."""
    if not PYTHON.exists():
        print(f"Making .venv with Python {sys.version.split()[0]} …", flush=True)
        venv.create(ENVIRONMENT, with_pip=True, symlinks=os.name != "nt")
        # Until Python 3.12 it is put in unasked; whatever needs it is in the lock with it.
        subprocess.run([*PIP, "uninstall", "--quiet", "--yes", "setuptools"], stderr=subprocess.DEVNULL, check=False)
    with tempfile.TemporaryDirectory() as folder:
        code = _installed(list(entries(lock_of(use)).values()), Path(folder))
    if code:
        return code
    itself = ("install", "--quiet", "--no-compile", "--no-deps", "--no-index", "--no-build-isolation", "--editable", str(ROOT))
    code = subprocess.run([*PIP, *itself], check=False).returncode
    if not code and use == "demo":
        subprocess.run([str(PYTHON), "-c", BYTECODE], cwd=ROOT, check=False)
    return code


def _installed(packages: list[list[str]], folder: Path) -> int:
    """The packages of a lock, which is complete, side by side: pip takes a processor of its own for what it unpacks."""
    shares = min(MOST_SIDE_BY_SIDE, os.cpu_count() or 1, len(packages))
    commands = []
    for number in range(shares):
        file = folder / f"{number}.lock"
        file.write_text("\n".join(line for lines in packages[number::shares] for line in lines), "utf-8")
        commands.append(
            (*PIP, "install", "--no-compile", "--no-deps", "--progress-bar", "off", "--require-hashes", "-r", str(file))
        )
    return _run_with_progress(commands, len(packages))


def _run_with_progress(commands: Sequence[Sequence[str]], packages: int) -> int:
    """Show a count of packages in place of pip's hundreds of lines; when it fails, show those too."""
    on_terminal = sys.stdout.isatty()
    lines: SimpleQueue[tuple[int, str | None]] = SimpleQueue()
    processes = [subprocess.Popen(one, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for one in commands]
    for number, process in enumerate(processes):
        threading.Thread(target=_hear, args=(process, number, lines), daemon=True).start()
    said: list[list[str]] = [[] for _ in processes]
    seen, heard, writing = 0, len(processes), 0
    while heard:
        number, line = lines.get()
        if line is None:
            heard -= 1
            continue
        said[number].append(line)
        if (found := PACKAGE.match(line)) is not None:
            seen += 1
            told = f"  {min(seen, packages)} of at most {packages} packages: {found[1]}"
            if on_terminal:
                print(f"\r\x1b[K{told}", end="", flush=True)
            elif seen % max(1, packages // LINES_OF_PROGRESS) == 0:
                print(told, flush=True)
        elif line.startswith("Installing collected packages"):
            writing += 1
            if writing == len(processes):
                print(f"{chr(13) + chr(27) + '[K' if on_terminal else ''}  writing them into .venv …", flush=True)
    for process, its in zip(processes, said, strict=True):
        if process.wait():
            print("\n" + "".join(its), file=sys.stderr)
    return next((process.returncode for process in processes if process.returncode), 0)


def _hear(process: subprocess.Popen[str], number: int, lines: SimpleQueue[tuple[int, str | None]]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put((number, line))
    lines.put((number, None))


if __name__ == "__main__":
    if sys.argv[1:] not in (["demo"], ["dev"], ["all"]):
        sys.exit(f"usage: python {Path(__file__).name} {{demo,dev,all}}")
    sys.exit(install(sys.argv[1]))
