"""Spec files: YAML or JSON, read so that whatever is wrong with a field can be shown with its line.

YAML is read by the rules of YAML 1.2 where 1.1 surprises: `no`, `on` and `yes` are text, and so are dates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LARGEST = 32 * 1024 * 1024
"""Bytes. A spec is written by people; data belongs in a dataset file."""

DEEPEST = 100
MOST_NODES = 1_000_000
"""Aliases count as often as they are used, so that a few lines cannot unfold into a huge document."""


class SpecFileError(ValueError):
    """A file that cannot be read as a spec; `line` says where, when that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class SpecFile:
    """What a file says, and where it says it."""

    path: Path
    content: Any
    root: yaml.Node | None

    def line_of(self, message: str) -> int | None:
        """The line of the field that a message begins with, e.g. `configuration.prompt.max_length: is not …`."""
        return None if self.root is None else _line(self.root, message)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core types: no dates, no sexagesimal numbers, no `yes` and `no`."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9][0-9_]*|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "").lower()
    if len(text) > 4000:
        raise yaml.constructor.ConstructorError(None, None, "a number with thousands of digits", node.start_mark)
    base = 16 if text.startswith("0x") else 8 if text.startswith("0o") else 10
    return int(text, base)


def _float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).replace("_", "").lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def read_spec_file(path: Path) -> SpecFile:
    """The file's content, with the line of every field."""
    text = _read(path)
    root = _compose(text, path)
    if path.suffix.lower() == ".json":
        return SpecFile(path, _read_json(text), root)
    if root is None:
        raise SpecFileError("is empty; `ratchet init` writes a spec to start from")
    _refuse_oddities(root)
    loader = _Loader("")
    try:
        content = loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error) from None
    except (RecursionError, ValueError, TypeError) as error:
        raise SpecFileError(f"is not usable YAML: {error or type(error).__name__}") from None
    finally:
        loader.dispose()
    if not isinstance(content, dict):
        raise SpecFileError(f"is {_kind(content)}, not a mapping; write `name: …`, `configuration: …` and so on", 1)
    return SpecFile(path, content, root)


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
    except ValueError as error:  # a NUL in the name
        raise SpecFileError(f"is not a usable path: {error}") from None


def _compose(text: str, path: Path) -> yaml.Node | None:
    is_json = path.suffix.lower() == ".json"
    try:
        loader = _Loader(text.replace("\t", " ") if is_json else text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        if is_json:
            return None  # only the lines are lost; whether it is JSON is decided by JSON's own parser
        raise _syntax_error(error) from None
    except yaml.reader.ReaderError as error:
        if is_json:
            return None
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        raise SpecFileError(
            f"contains a character that YAML does not allow (#x{error.character:04x}); remove it", line
        ) from None
    except RecursionError:
        if is_json:
            return None
        raise SpecFileError("is nested too deeply; flatten it") from None


def _syntax_error(error: yaml.MarkedYAMLError) -> SpecFileError:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "is not YAML"
    hint = ""
    if "cannot start any token" in problem and "\\t" in problem:
        hint = "; indent with spaces, not tabs"
    elif "mapping values are not allowed" in problem:
        hint = "; check the indentation, and quote text that contains `: `"
    elif "could not determine a constructor" in problem:
        hint = "; tags such as !python are not allowed, remove it"
    where = f" (column {mark.column + 1})" if mark is not None else ""
    return SpecFileError(f"is not valid YAML{where}: {problem}{hint}", mark.line + 1 if mark is not None else None)


def _refuse_oddities(root: yaml.Node) -> None:
    """Keys that are there twice (YAML would silently take the last), circles, and documents that unfold without end."""
    seen = 0
    waiting: list[tuple[yaml.Node, int, frozenset[int]]] = [(root, 1, frozenset())]
    while waiting:
        node, depth, above = waiting.pop()
        seen += 1
        line = node.start_mark.line + 1
        if id(node) in above:
            raise SpecFileError("an alias refers to what contains it; break the circle", line)
        if depth > DEEPEST:
            raise SpecFileError(f"is nested more than {DEEPEST} levels deep; flatten it", line)
        if seen > MOST_NODES:
            raise SpecFileError("unfolds into more than a million values; put samples in a JSONL file (dataset.path)")
        if isinstance(node, yaml.MappingNode):
            _refuse_repeated_keys(node)
        waiting += [(child, depth + 1, above | {id(node)}) for child in _children(node)]


def _refuse_repeated_keys(node: yaml.MappingNode) -> None:
    first: dict[Hashable, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            continue
        line = key.start_mark.line + 1
        if key.value in first:
            raise SpecFileError(f"key {key.value!r} is there twice, first in line {first[key.value]}; keep one", line)
        first[key.value] = line


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _read_json(text: str) -> Any:
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_each_key_once)
    except json.JSONDecodeError as error:
        raise SpecFileError(f"is not valid JSON (column {error.colno}): {error.msg}", error.lineno) from None
    except RecursionError:
        raise SpecFileError("is nested too deeply; flatten it") from None
    except ValueError as error:
        raise SpecFileError(str(error)) from None
    if not isinstance(content, dict):
        raise SpecFileError(f'is {_kind(content)}, not an object; write {{"name": …, "configuration": …}}', 1)
    return content


def _no_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number; write a finite number or null")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is there twice; keep one")
    return dict(pairs)


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
