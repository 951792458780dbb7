"""The wheel has the rooms below one private package; only import statements are changed on the way there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.engine_package import LIBRARY, ROOMS, UnclearImport, lay_out, moved

ROOT = Path(__file__).parents[3]
MODULE = re.compile(rf"(?:{'|'.join(ROOMS)})(?:\.[a-z_0-9]+)+(?::\w+)?|from (?:{'|'.join(ROOMS)})[. ].*")
ASKED = {"own_module", "module_command"}
"""What turns a module's name into the one that it has where it is installed."""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from workflows.model import run", "from ratchet_engine.workflows.model import run"),
        ("from  clients import logs as l  # why", "from  ratchet_engine.clients import logs as l  # why"),
        ("import store.events as events", "import ratchet_engine.store.events as events"),
        ("import clients", "from ratchet_engine import clients"),
        ("import store.events", "import ratchet_engine.store.events; from ratchet_engine import store"),
        ("def f():\n    from worker import main\n", "def f():\n    from ratchet_engine.worker import main\n"),
        ("from store.rows import (\n    A,\n    B,\n)", "from ratchet_engine.store.rows import (\n    A,\n    B,\n)"),
        ("from ratchet import Sample\nimport workers, stores.x", "from ratchet import Sample\nimport workers, stores.x"),
        ("from . import store\nfrom .clients import x", "from . import store\nfrom .clients import x"),
        ("text = 'ä'; from store import x", "text = 'ä'; from ratchet_engine.store import x"),
        ("'from store import x'\n# import clients", "'from store import x'\n# import clients"),
    ],
)
def test_only_imports_of_rooms_change(source: str, expected: str) -> None:
    assert moved(source.encode()).decode() == expected


def test_an_import_that_cannot_be_moved_stops_the_build() -> None:
    with pytest.raises(UnclearImport, match="line 2: import clients on a line of its own"):
        moved(b"\nimport os, clients")


def test_the_wheel_is_the_checkout_line_by_line(tmp_path: Path) -> None:
    lay_out(ROOT, tmp_path)
    assert {place.name for place in tmp_path.iterdir()} == {"ratchet", "ratchet_engine"}
    assert {place.stem for place in (tmp_path / "ratchet_engine").glob("[!p]*")} == {"__init__", *ROOMS}
    assert all((tmp_path / package / "py.typed").is_file() for package in ("ratchet", "ratchet_engine"))
    for name in (LIBRARY, *ROOMS):
        for source in sorted((ROOT / name).rglob("*")) or [ROOT / f"{name}.py"]:
            if source.is_dir() or "__pycache__" in source.parts:
                continue
            laid_out = (tmp_path if name == LIBRARY else tmp_path / "ratchet_engine") / source.relative_to(ROOT)
            assert len(laid_out.read_bytes().splitlines()) == len(source.read_bytes().splitlines()), source
    imported = {
        name.partition(".")[0] for file in tmp_path.rglob("*.py") for name in _imports(ast.parse(file.read_text("utf-8")))
    }
    assert not imported & set(ROOMS)
    assert "ratchet_engine" in imported


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_string_names_a_module_by_the_name_that_it_has_in_a_checkout() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for name in ROOMS
        for file in sorted((ROOT / name).rglob("*.py")) or [ROOT / f"{name}.py"]
        for line, text in _strings(ast.parse(file.read_text("utf-8")))
        if MODULE.fullmatch(text)
    ]
    assert found == []


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    asked = {
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKED
        for argument in node.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in asked:
            yield node.lineno, node.value


def test_the_wheel_imports_without_the_checkout(tmp_path: Path) -> None:
    lay_out(ROOT, tmp_path)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.path[:] = [p for p in sys.path if p != sys.argv[2]]\n"
        "import ratchet_engine.worker, ratchet_engine.clients.cli\n"
        "from ratchet_engine.workflows.optimizers.computations import COMPUTATIONS, computation\n"
        "from ratchet_engine.clients.own_modules import own_module\n"
        "from ratchet_engine.clients.temporal import PASSED_THROUGH\n"
        "from ratchet_engine.store.schema import migrations\n"
        "from ratchet_engine.activities.plugins import isolation, loader, probe\n"
        "[computation(name) for name in COMPUTATIONS]\n"
        "assert migrations() and own_module('clients.cli') in sys.modules and PASSED_THROUGH[0] in sys.modules\n"
        "assert 'ratchet_engine.' in isolation.PROGRAM and 'ratchet_engine.' in probe.PROGRAM\n"
        "assert loader.OWN_NAMES == ('ratchet', 'ratchet_engine')\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[3:])))\n"
    )
    command = [sys.executable, "-P", "-c", program, str(tmp_path), str(ROOT), *ROOMS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
