"""Lay out the wheel: the library `ratchet` as it is, and the rooms below one private package.

A checkout has `workflows`, `activities`, `store`, `clients` and `worker` at its top, where one reads them first. Installed like
that they would take names that every Temporal project has. So the wheel carries them as `ratchet_engine.workflows` and so on.
Only import statements are changed, in place: every line keeps its number, and tracebacks fit the source.

What names a module in a string is not changed; such code asks `clients.own_modules`, or its own `__name__`.
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ENGINE = "ratchet_engine"
LIBRARY = "ratchet"
ROOMS = ("workflows", "activities", "store", "clients", "worker")
FRONT_PAGE = '"""Ratchet\'s engine, which is private: import `ratchet`, or run the command of that name."""\n'

Edit = tuple[int, int, int, bytes]
"""A line, counted from 0, the bytes of it that go, and what comes instead."""


class UnclearImport(Exception):
    """An import that cannot be moved without changing what follows."""


def moved(source: bytes) -> bytes:
    """Return a module's source with every import of a room moved below the engine's package."""
    lines = source.splitlines(keepends=True)
    edits = [edit for node in ast.walk(ast.parse(source)) for edit in _edits(node, lines)]
    for line, start, end, instead in sorted(edits, reverse=True):
        lines[line] = lines[line][:start] + instead + lines[line][end:]
    return b"".join(lines)


def _edits(node: ast.AST, lines: list[bytes]) -> Iterator[Edit]:
    match node:
        case ast.ImportFrom(module=str(module), level=0) if _is_room(module):
            line = node.lineno - 1
            start = lines[line].index(module.encode(), node.col_offset + len("from"))
            yield line, start, start, f"{ENGINE}.".encode()
        case ast.Import(names=names):
            for alias in (alias for alias in names if _is_room(alias.name)):
                if alias.asname is None and len(names) > 1:
                    raise UnclearImport(f"line {node.lineno}: import {alias.name} on a line of its own")
                yield from _plain_edits(node, alias)


def _plain_edits(node: ast.Import, alias: ast.alias) -> Iterator[Edit]:
    """`import clients` binds `clients`, and `import clients.x` does as well: the first name must stay what is bound."""
    line, start = alias.lineno - 1, alias.col_offset
    if alias.asname is not None:
        yield line, start, start, f"{ENGINE}.".encode()
        return
    top = alias.name.partition(".")[0]
    loaded = f"import {ENGINE}.{alias.name}; " if alias.name != top else ""
    yield line, node.col_offset, start + len(alias.name.encode()), f"{loaded}from {ENGINE} import {top}".encode()


def _is_room(module: str) -> bool:
    return module.partition(".")[0] in ROOMS


def lay_out(root: Path, place: Path) -> None:
    """Write the packages of the wheel into an empty directory."""
    engine = place / ENGINE
    engine.mkdir(parents=True)
    (engine / "__init__.py").write_text(FRONT_PAGE, "utf-8")
    (engine / "py.typed").touch()  # what the library offers has types of the engine
    for name in (LIBRARY, *ROOMS):
        above = place if name == LIBRARY else engine
        source = root / name
        files = [file for file in sorted(source.rglob("*")) if file.is_file()] if source.is_dir() else [root / f"{name}.py"]
        for file in files:
            path = file.relative_to(root)
            if "__pycache__" in path.parts or path.name.startswith("."):
                continue
            target = above / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".py":
                try:
                    target.write_bytes(moved(file.read_bytes()))
                except UnclearImport as error:
                    raise UnclearImport(f"{path}: {error}") from None
            else:
                shutil.copyfile(file, target)


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # read without the build tools, by a test
    pass
else:

    class EnginePackage(BuildHookInterface):  # type: ignore[type-arg]
        """The build hook; an editable installation keeps the checkout's layout."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Give the builder the packages that it ships."""
            if version == "editable":
                return
            self._place = tempfile.TemporaryDirectory(prefix="ratchet-wheel-")
            place = Path(self._place.name)
            lay_out(Path(self.root), place)
            build_data["force_include"] |= {str(place / name): name for name in (LIBRARY, ENGINE)}

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            """Remove what was laid out."""
            if version != "editable":
                self._place.cleanup()
