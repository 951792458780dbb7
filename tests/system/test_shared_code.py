"""What tests share is in `tests/support`: no test module imports another, so each can be read, moved and run alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
SHARED = TESTS / "support"


def imported(path: Path) -> Iterator[tuple[int, Path]]:
    """Every module of the tests that a file imports, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found = [TESTS.parent.joinpath(*name.split(".")).with_suffix(".py") for name in names]
        yield from ((node.lineno, module) for module in found if TESTS in module.parents and module.exists())


def may_import(path: Path, module: Path) -> bool:
    """Whether the module is shared, or no test itself and beside the one test that it belongs to."""
    if SHARED in module.parents:
        return True
    return module.parent == path.parent and not module.name.startswith(("test_", "conftest"))


def test_no_test_module_imports_another() -> None:
    read = {path: list(imported(path)) for path in sorted(TESTS.rglob("*.py"))}
    assert sum(map(len, read.values())) > 300, "the imports of the tests were not found"
    wrong = [
        f"{path.relative_to(TESTS.parent)}:{line} imports {module.relative_to(TESTS.parent)}"
        for path, modules in read.items()
        for line, module in modules
        if not may_import(path, module)
    ]
    assert wrong == [], "what tests share belongs into tests/support"
