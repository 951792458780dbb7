"""Print the part of requirements.lock that some use of Ratchet needs: packages of pyproject.toml and all they stand on.

python deploy/core_lock.py library  what `import ratchet` needs
python deploy/core_lock.py run      what Ratchet runs on: engine, encryption, traces; no development tools, no embedded servers
python deploy/core_lock.py full     besides, the page, the API and every extra but the embedded servers and an example's game
python deploy/core_lock.py demo     what `ratchet demo` runs on: of the engine what its spec needs, and the embedded servers
python deploy/core_lock.py dev      what `ratchet dev` runs on: the page, too
python deploy/core_lock.py build    what its wheel is built with

The lock says why each package is in it (`# via`), so the answer needs no resolver and no network: a package belongs to the
part when it is named there, or when something that belongs to the part wants it. Hashes and markers stay as they are. What is
included because of an extra that only a development tool asked for would be too much, never too little.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
EXTRAS = {
    "library": (),
    "run": ("engine", "encryption", "opentelemetry"),
    "full": (
        *("engine", "encryption", "opentelemetry", "http", "oidc", "mcp", "s3", "parquet", "text-metrics", "postgres"),
        *("redis", "tokens", "search", "pandas", "anthropic", "google", "bedrock"),
    ),
    "demo": ("engine", "embedded"),
    "dev": ("engine", "embedded", "http"),
    "build": (),
}
"""The parts, and the extras that each has."""
LEFT_OUT = {"demo": {"rapidfuzz", "bpe-openai", "uvloop"}}
"""What of its extras a part does without: 200 MB for races, searches, similarities and counts of tokens, none of which the
demo's spec has, and for a faster loop. `ratchet check` tells whoever runs another spec in an environment that lacks them."""


class LockError(Exception):
    """The lock and pyproject.toml do not belong together."""


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def named_in(requirements: Iterable[str]) -> set[str]:
    """The packages that requirement lines name."""
    return {normalized(found[0]) for line in requirements if (found := NAME.match(line))}


def entries(lock: str) -> dict[str, list[str]]:
    """The lines of each package in the lock, by its name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in lock.splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            name, pinned, _ = line.partition("==")
            if not pinned:
                raise LockError(f"not pinned: {line}")
            lines = found.setdefault(normalized(name.partition("[")[0]), [])
        if line:
            lines.append(line)
    return found


def wanted_by(lines: Iterable[str]) -> set[str]:
    """Who wants a package, as its `# via` comment says."""
    comments = [line.strip().removeprefix("#").strip() for line in lines if line.strip().startswith("#")]
    return named_in(comment.removeprefix("via").strip() for comment in comments)


def part_of(lock: str, roots: set[str]) -> str:
    """The lock of the roots and all they stand on."""
    packages = entries(lock)
    if missing := roots - packages.keys():
        raise LockError(f"requirements.lock lacks {', '.join(sorted(missing))}; run `make lock`")
    if unhashed := [name for name, lines in packages.items() if not any("--hash=" in line for line in lines)]:
        raise LockError(f"requirements.lock has no hash for {', '.join(sorted(unhashed))}")
    wanting = {name: wanted_by(lines) for name, lines in packages.items()}
    kept = set(roots)
    while more := {name for name, parents in wanting.items() if name not in kept and parents & kept}:
        kept |= more
    return "".join(f"{line}\n" for name, lines in packages.items() if name in kept for line in lines)


def roots_of(pyproject: str, part: str) -> set[str]:
    """The packages that pyproject.toml names for a part."""
    content = tomllib.loads(pyproject)
    if part == "build":
        return named_in(content["build-system"]["requires"])
    project = content["project"]
    extras = [project["optional-dependencies"][extra] for extra in EXTRAS[part]]
    return named_in(line for lines in (project["dependencies"], *extras) for line in lines) - LEFT_OUT.get(part, set())


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in EXTRAS:
        sys.stderr.write(f"usage: python {Path(__file__).name} {{{','.join(EXTRAS)}}}\n")
        return 2
    try:
        roots = roots_of((ROOT / "pyproject.toml").read_text("utf-8"), arguments[0])
        sys.stdout.write(part_of((ROOT / "requirements.lock").read_text("utf-8"), roots))
    except LockError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
