"""Experiments declared in files: found without importing what declares none, then imported as pytest imports tests."""

from __future__ import annotations

import ast
import importlib
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clients.commands.context import CommandError
from ratchet._declared.declarations import Declaration, declaration_of
from ratchet._text.shortening import shorten

DECORATORS: Final = ("measure", "explore", "optimize")
NOT_LOOKED_INTO: Final = ("__pycache__", "node_modules", "site-packages", "venv", "build", "dist")
LARGEST_FILE: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class DeclaredInFile:
    """A declared experiment, and where it is."""

    declaration: Declaration
    file: Path
    line: int


@dataclass(frozen=True)
class DeclaredBelow:
    """What files declare, and which of them nobody can look into."""

    experiments: list[DeclaredInFile]
    failures: dict[Path, str]
    """Why a file cannot be imported."""


def declared_in(path: Path) -> DeclaredBelow:
    """Every experiment that a file declares, or the files below a folder. Raises CommandError where none can be imported."""
    if not path.exists():
        raise CommandError(f"{path}: there is no such file or folder; name the file that declares experiments")
    files = [path] if path.is_file() else [file for file in _files_below(path) if _declares(file)]
    experiments, failures = list[DeclaredInFile](), dict[Path, str]()
    for file in files:
        try:
            experiments += _declared(file)
        except CommandError as error:
            failures[file] = str(error)
    if failures and len(failures) == len(files):
        raise CommandError("\n".join(failures.values()))
    return DeclaredBelow(experiments, failures)


def _files_below(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name in NOT_LOOKED_INTO:
            continue
        if entry.is_dir() and not entry.is_symlink() and not (entry / "pyvenv.cfg").exists():
            yield from _files_below(entry)
        elif entry.suffix == ".py" and entry.is_file():
            yield entry


def _declares(file: Path) -> bool:
    """Whether a function in it is decorated as experiments are; nothing is run to find out."""
    try:
        if file.stat().st_size > LARGEST_FILE:
            return False
        text = file.read_bytes()
        if b"ratchet" not in text:
            return False
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(_is_declaring(decorator) for function in functions for decorator in function.decorator_list)


def _is_declaring(decorator: ast.expr) -> bool:
    """`@experiment.measure(…)`, by whatever name the module goes, or `@measure(…)`."""
    called = decorator.func if isinstance(decorator, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else None
    return name in DECORATORS


def _declared(file: Path) -> Iterator[DeclaredInFile]:
    for owner, function in _functions_of(_imported(file.resolve())):
        declaration = declaration_of(function)
        if declaration is not None and declaration.file.resolve() == file.resolve():
            yield DeclaredInFile(declaration.within(owner), file, declaration.line)


def _functions_of(module: types.ModuleType) -> Iterator[tuple[type | None, object]]:
    """The functions of a module and of its classes, in the order of their definition."""
    for part in list(vars(module).values()):
        if isinstance(part, type) and part.__module__ == module.__name__:
            yield from ((part, function) for function in vars(part).values())
        else:
            yield None, part


def _imported(file: Path) -> types.ModuleType:
    """The module that a file is: its folder, or that of its package, comes first on the import path."""
    top, name = (file.parent, file.stem) if file.stem != "__init__" else (file.parent.parent, file.parent.name)
    while (top / "__init__.py").is_file():
        name, top = f"{top.name}.{name}", top.parent
    if str(top) not in sys.path:
        sys.path.insert(0, str(top))
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # as `python -m pytest` has it
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        told = shorten(str(error) or type(error).__name__)
        raise CommandError(f"{file}: cannot be imported: {type(error).__name__}: {told}") from error
    if Path(module.__file__ or "").resolve() != file:
        raise CommandError(
            f"{file}: another module of the name {name!r} was imported before, from {module.__file__}; rename one of them, "
            "or list them one by one"
        )
    return module
