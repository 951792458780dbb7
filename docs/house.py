"""Print how easily one finds one's way in the house: `python -m docs.house`.

Each figure stands beside what was measured at commit e30c318, before the rooms were made.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("workflows", "activities", "store", "clients", "ratchet")
BEFORE = {
    "folders with more than 16 modules": 10,
    "modules in the fullest folder": 51,
    "modules": 451,
    "modules over 400 lines": 8,
    "modules under 40 lines": 59,
    "module names that end in -ing": 96,
    "module names used more than once": 53,
    "class names used more than once": 43,
    "lines of product Python": 58_900,
    "lines of the README": 612,
}


def modules() -> Iterator[Path]:
    """Yield the product's modules, without `__init__`."""
    for room in ROOMS:
        yield from (path for path in sorted((ROOT / room).rglob("*.py")) if path.name not in ("__init__.py", "__main__.py"))
    yield ROOT / "worker.py"


def lines_of(path: Path) -> int:
    """Count the lines of a file."""
    return path.read_text("utf-8").count("\n")


def figures() -> dict[str, int]:
    """Count what `BEFORE` names, in the tree as it is."""
    found = list(modules())
    folders = Counter(path.parent for path in found)
    names = Counter(path.stem for path in found)
    classes = Counter(
        node.name for path in found for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef)
    )
    every = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")] + [ROOT / "worker.py"]
    return {
        "folders with more than 16 modules": sum(count > 16 for count in folders.values()),
        "modules in the fullest folder": max(folders.values()),
        "modules": len(found),
        "modules over 400 lines": sum(lines_of(path) > 400 for path in found),
        "modules under 40 lines": sum(lines_of(path) < 40 for path in found),
        "module names that end in -ing": sum(path.stem.endswith("ing") for path in found),
        "module names used more than once": sum(count > 1 for count in names.values()),
        "class names used more than once": sum(count > 1 for count in classes.values()),
        "lines of product Python": sum(map(lines_of, every)),
        "lines of the README": lines_of(ROOT / "README.md"),
    }


def main() -> None:
    """Print a table: the figure, before, now."""
    print(f"{'':36} {'before':>8} {'now':>8}")
    for name, now in figures().items():
        print(f"{name:36} {BEFORE[name]:>8,} {now:>8,}")
    folders = Counter(path.parent.relative_to(ROOT).as_posix() for path in modules())
    print("\nThe fullest folders: " + ", ".join(f"{name} {count}" for name, count in folders.most_common(8)))


if __name__ == "__main__":
    main()
