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
import venv
from collections.abc import Iterator
from pathlib import Path

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
    lock = lock_of(use)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "part.lock"
        file.write_text(lock, "utf-8")
        command = (*PIP, "install", "--no-compile", "--progress-bar", "off", "--require-hashes", "--requirement", str(file))
        code = _run_with_progress(command, len(entries(lock)))
    if code:
        return code
    itself = ("install", "--quiet", "--no-compile", "--no-deps", "--no-index", "--no-build-isolation", "--editable", str(ROOT))
    code = subprocess.run([*PIP, *itself], check=False).returncode
    if not code and use == "demo":
        subprocess.run([str(PYTHON), "-c", BYTECODE], cwd=ROOT, check=False)
    return code


def _run_with_progress(command: tuple[str, ...], packages: int) -> int:
    """Show a count of packages in place of pip's hundreds of lines; when it fails, show those too."""
    on_terminal = sys.stdout.isatty()
    said: list[str] = []
    seen = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in _lines(process.stdout, said):
            if (found := PACKAGE.match(line)) is not None:
                seen += 1
                told = f"  {min(seen, packages)} of at most {packages} packages: {found[1]}"
                if on_terminal:
                    print(f"\r\x1b[K{told}", end="", flush=True)
                elif seen % max(1, packages // LINES_OF_PROGRESS) == 0:
                    print(told, flush=True)
            elif line.startswith("Installing collected packages"):
                print(f"{chr(13) + chr(27) + '[K' if on_terminal else ''}  writing them into .venv …", flush=True)
    if process.returncode:
        print("\n" + "".join(said), file=sys.stderr)
    return process.returncode


def _lines(stream: Iterator[str], said: list[str]) -> Iterator[str]:
    for line in stream:
        said.append(line)
        yield line


if __name__ == "__main__":
    if sys.argv[1:] not in (["demo"], ["dev"], ["all"]):
        sys.exit(f"usage: python {Path(__file__).name} {{demo,dev,all}}")
    sys.exit(install(sys.argv[1]))
