"""Spec files: YAML or JSON, read so that whatever is wrong with a field can be shown with its line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ratchet._formats.strict_json import LongNumber, strict_json
from ratchet._formats.yaml import YamlProblem, composed, constructed

LARGEST = 4 * 1024 * 1024
"""Bytes. A spec is written by people, and what a run takes of one is less than half of that; data belongs in a dataset file."""


class SpecFileError(YamlProblem):
    """A file that cannot be read as a spec; `line` says where, when that is known."""


@dataclass(frozen=True)
class SpecFile:
    """What a file says, and where it says it."""

    path: Path
    content: Any
    root: yaml.Node | None
    text: str | None = None
    """As its author wrote it, where there is a file."""

    def line_of(self, message: str) -> int | None:
        """The line of the field that a message begins with, e.g. `configuration.prompt.max_length: is not …`."""
        return None if self.root is None else _line(self.root, message)


def read_spec_file(path: Path) -> SpecFile:
    """The file's content, with the line of every field."""
    return read_spec_text(_read(path), path)


def read_spec_text(text: str, path: Path) -> SpecFile:
    """What such a file would say; its name says whether it is JSON."""
    root = _compose(text, path)
    if path.suffix.lower() == ".json":
        return SpecFile(path, _read_json(text), root, text)
    if root is None:
        raise SpecFileError("is empty; `ratchet init` writes a spec to start from")
    try:
        content = constructed(root)
    except YamlProblem as problem:
        raise SpecFileError(str(problem), problem.line) from None
    if not isinstance(content, dict):
        raise SpecFileError(f"is {_kind(content)}, not a mapping; write `name: …`, `configuration: …` and so on", 1)
    return SpecFile(path, content, root, text)


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise SpecFileError("is a directory; give the spec file in it")
        size = path.stat().st_size
        if size > LARGEST:
            raise SpecFileError(f"has {size:,} bytes, a spec at most {LARGEST:,}; put samples in a JSONL file (dataset.path)")
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise SpecFileError("does not exist; `ratchet init` writes a spec to start from") from None
    except UnicodeDecodeError as error:
        raise SpecFileError(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise SpecFileError(f"cannot be read: {error.strerror or error}") from None
    except SpecFileError:
        raise
    except ValueError as error:  # a NUL in the name
        raise SpecFileError(f"is not a usable path: {error}") from None


def _compose(text: str, path: Path) -> yaml.Node | None:
    is_json = path.suffix.lower() == ".json"
    try:
        return composed(text.replace("\t", " ") if is_json else text)
    except YamlProblem as problem:
        if is_json:
            return None  # only the lines are lost; whether it is JSON is decided by JSON's own parser
        raise SpecFileError(str(problem), problem.line) from None


def _read_json(text: str) -> Any:
    try:
        content = strict_json(text)
    except json.JSONDecodeError as error:
        raise SpecFileError(f"is not valid JSON (column {error.colno}): {error.msg}", error.lineno) from None
    except LongNumber as error:
        raise SpecFileError(str(error), error.line_in(text)) from None
    except ValueError as error:
        raise SpecFileError(str(error)) from None
    if not isinstance(content, dict):
        raise SpecFileError(f'is {_kind(content)}, not an object; write {{"name": …, "configuration": …}}', 1)
    return content


def _kind(content: Any) -> str:
    return {list: "a list", str: "text", type(None): "empty"}.get(type(content), "a single value")


def _line(root: yaml.Node, message: str) -> int | None:
    """Walk down the fields that the message names, as far as the file has them."""
    node, rest, line = root, message, None
    while True:
        step = _step(node, rest)
        if step is None:
            return line
        line, node, rest = step


def _step(node: yaml.Node, rest: str) -> tuple[int, yaml.Node, str] | None:
    if isinstance(node, yaml.SequenceNode):
        # `dataset: [...]` is short for `dataset: {items: [...]}`
        match = re.match(r"(?:\.?items)?\[(\d+)\]", rest)
        if match is None or int(match.group(1)) >= len(node.value):
            return None
        item = node.value[int(match.group(1))]
        return item.start_mark.line + 1, item, rest[match.end() :]
    if not isinstance(node, yaml.MappingNode):
        return None
    rest = rest.removeprefix(".")
    named = [
        (key, value)
        for key, value in node.value
        if isinstance(key, yaml.ScalarNode) and key.value and re.match(rf"{re.escape(key.value)}(?=[.\[:]|$)", rest)
    ]
    if not named:
        return None
    key, value = max(named, key=lambda pair: len(pair[0].value))
    return key.start_mark.line + 1, value, rest[len(key.value) :]
