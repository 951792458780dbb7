"""The documents of the repository, taken apart: links, headings, code blocks, and the names of modules in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ratchet._formats.yaml import YamlProblem, composed, constructed
from workflows.model.spec.request import OptimizationRequest

ROOT = Path(__file__).parents[2]
NOT_OURS = {
    ".venv",
    ".ratchet",
    ".git",
    ".bench",
    ".artifacts",
    "node_modules",
    "optimizations",
    "explorations",
    "dist",
    "build",
}
ROOMS = ("workflows", "activities", "store", "clients", "ratchet", "docs", "tests", "benchmarks", "examples", "deploy")

MADE_BY_USERS = {"deploy/.env"}
"""What a document asks its reader to write."""
ENDINGS = {"md", "py", "js", "json", "jsonl", "yaml", "yml", "toml", "sql", "txt", "env", "dump", "html", "csv", "png"}
"""Of files: what ends so is no module."""

_FENCED = re.compile(r"^(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)\]\((?P<target>[^()\s]+(?:\([^()]*\))?)\)")
_PATH = re.compile(rf"(?<![\w./-])(?P<path>(?:{'|'.join(ROOMS)})(?:/[\w.*-]+)+/?)")
_MODULE = re.compile(rf"(?<![\w./-])(?P<module>(?:{'|'.join(ROOMS)})(?:\.[A-Za-z_]\w*)+)(?![\w/-])")


@dataclass(frozen=True)
class Block:
    """A code block, and the line that it begins in."""

    language: str
    text: str
    line: int


def documents() -> list[Path]:
    """Every Markdown file that is ours."""
    found: list[Path] = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS]
        found += (Path(folder, name) for name in files if name.endswith(".md"))
    return sorted(found)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(text: str) -> Iterator[Block]:
    for found in _FENCED.finditer(text):
        yield Block(found["language"], found["text"], text.count("\n", 0, found.start()) + 2)


def files_of(text: str) -> dict[str, str]:
    """The files that a tutorial has its reader write: a paragraph that ends with a colon names one, the next block holds it."""
    found = {}
    for paragraph, block in re.findall(
        r"^([^\n]+(?:\n[^\n]+)*):\n\n```(?:python|yaml|json)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    ):
        names = re.findall(r"`([\w/]+\.(?:py|yaml|jsonl))`", paragraph)
        if names:
            found[names[0]] = block
    return found


COMPLETE = {"target", "dataset", "objective"}
AROUND: dict[str, Any] = {
    "configuration": {"prompt": {"value": "Sort {{input.ticket}}.", "change": "text"}, "model": "gpt-5-mini"},
    "target": {"kind": "chat", "messages": [{"role": "user", "content": "{{factors.prompt}}"}]},
    "dataset": {"items": [{"input": {"ticket": "x"}, "expected": "y"}]},
    "objective": {"metric": "exact"},
    "optimizer": "none",
}
"""What the part of a spec that a document shows is put into, to be read as the spec that it is a part of."""


def specs_of(text: str) -> list[tuple[int, dict[str, Any]]]:
    """The specs, whole or in part, that a document shows; a block that says a field twice shows one alternative each time."""
    found = []
    for block in blocks(text):
        if block.language == "yaml":
            found += [(block.line, content) for content in _contents(block) if content.keys() <= _fields()]
    return found


def _fields() -> set[str]:
    return set(OptimizationRequest.model_fields)


def _contents(block: Block) -> list[dict[str, Any]]:
    try:
        return [_read(block.text)]
    except YamlProblem:
        return [_read(part) for part in re.split(r"^(?=\w)", block.text, flags=re.MULTILINE) if re.match(r"\w+:", part)]


def _read(text: str) -> dict[str, Any]:
    root = composed(text)
    content = constructed(root) if root is not None else {}
    return content if isinstance(content, dict) else {"not a mapping": content}


def prose(text: str) -> str:
    """The text without its code blocks."""
    return _FENCED.sub("", text)


def links(text: str) -> Iterator[str]:
    """Where a document's links lead, those to other sites left out."""
    for found in _LINK.finditer(re.sub(r"`[^`\n]*`", "", prose(text))):
        if not re.match(r"[a-z]+:", found["target"]):
            yield found["target"]


def anchors(text: str) -> set[str]:
    """The names under which the headings of a document can be linked to."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?)\s*$", prose(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while (numbered := f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(numbered)
    return found


def broken(path: Path, target: str) -> str | None:
    """What is wrong with a relative link of a document."""
    place, _, anchor = target.partition("#")
    linked = (path.parent / unquote(place)).resolve() if place else path
    if not linked.exists():
        return f"{name_of(path)}: {target} does not exist"
    if anchor and linked.suffix == ".md" and anchor not in anchors(linked.read_text(encoding="utf-8")):
        return f"{name_of(path)}: {target}: there is no such heading"
    return None


def missing_names(text: str) -> Iterator[str]:
    """The paths and modules of ours that a document names and that do not exist."""
    for found in _PATH.finditer(text):
        path = found["path"].rstrip("/.")
        if path not in MADE_BY_USERS and not (any(ROOT.glob(path)) if "*" in path else (ROOT / path).exists()):
            yield found["path"]
    for found in _MODULE.finditer(text):
        if found["module"].rpartition(".")[2] not in ENDINGS and not module_exists(found["module"]):
            yield found["module"]


def module_exists(name: str) -> bool:
    """Whether a dotted name is a module of ours, or something that one defines."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        file = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
        if file.exists():
            rest = parts[length:]
            return not rest or bool(re.search(rf"\b{re.escape(rest[0])}\b", file.read_text(encoding="utf-8")))
        if length == len(parts) and place.is_dir():
            return True
    return False


ANY_LINES = "…"


def shown_of_the_demo() -> list[str]:
    """The lines that the README shows of the demo; `…` stands for any lines, none included."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return next(block.text for block in blocks(text) if block.text.startswith("SIMULATED")).splitlines()


def not_printed(shown: list[str], printed: str) -> str | None:
    """The first line that is shown and not printed where it is shown; None when all are."""
    lines = [line.rstrip() for line in printed.splitlines()]
    place, anywhere = 0, False
    for line in shown:
        if line.strip() == ANY_LINES:
            anywhere = True
            continue
        found = next((at for at in range(place, len(lines) if anywhere else place + 1) if lines[at : at + 1] == [line]), None)
        if found is None:
            return line
        place, anywhere = found + 1, False
    return None
