"""Find modules beside a spec that carry the name of one of Ratchet's own.

A process has one module of a name. In a checkout Ratchet's rooms take theirs, so a plug-in that imports its own `workflows`
would get Ratchet's. An installed Ratchet takes no such name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from clients.own_modules import DIRECTORY


def name_clash(reference: str, directory: Path, names: Sequence[str]) -> str | None:
    """Return what is wrong when a plug-in, or what it imports from beside the spec, imports a name that is taken."""
    if directory == DIRECTORY:
        return None
    taken = {name: place for name in names if (place := _place(name, directory)) is not None}
    waiting, seen = [reference.partition(":")[0]], set[str]()
    while waiting and taken:
        name = waiting.pop()
        place = _place(name, directory)
        if name in seen or place is None:
            continue
        seen.add(name)
        for imported in _imports(place, name):
            top = imported.partition(".")[0]
            if top in taken:
                return (
                    f"plug-in {reference}: {place} imports {top!r} and gets Ratchet's own, not {taken[top]}: this is a "
                    "checkout of Ratchet, whose rooms have such names; rename yours, or use an installed Ratchet, which takes "
                    'none of them: pip install "ratchet-optimizer[engine]"'
                )
            waiting.append(imported)
    return None


def _place(name: str, directory: Path) -> Path | None:
    """The file of a module beside the spec."""
    path = directory.joinpath(*name.split("."))
    found = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next((place for place in found if place.is_file()), path if path.is_dir() else None)


def _imports(place: Path, name: str) -> Iterator[str]:
    """What a file imports, wherever in it: a function that imports when it is called gets the same module."""
    if place.is_dir():
        return
    try:
        tree = ast.parse(place.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return  # importing it says what is wrong
    package = name if place.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                base = ".".join([*above, *([module] if module else [])])
                yield base
                yield from (f"{base}.{alias.name}" for alias in names)
