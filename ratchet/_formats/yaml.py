"""YAML as people write it, read by the rules of YAML 1.2 where 1.1 surprises: `no`, `on` and `yes` are text, and so are dates.

Keys that are there twice, circles and documents that unfold without end are refused, with their line.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Any

import yaml

DEEPEST = 100
MOST_NODES = 1_000_000
"""Aliases count as often as they are used, so that a few lines cannot unfold into a huge document."""


MOST_WRITTEN = 300_000
"""Values of a text, counted while they are read: what comes after them is not looked at."""

MOST_ENTRIES = 50_000
"""Of one list, which is as many samples as a spec may hold."""


class YamlProblem(ValueError):
    """A text that cannot be read; `line` says where, when that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core types: no dates, no sexagesimal numbers, no `yes` and `no`."""

    written = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Count what is written, and refuse too much of it at once."""
        self.written += 1
        if self.written > MOST_WRITTEN:
            raise YamlProblem(f"has more than {MOST_WRITTEN:,} values; keep data in a file of its own")
        if isinstance(parent, yaml.SequenceNode) and isinstance(index, int) and index >= MOST_ENTRIES:
            told = f"is a list of more than {MOST_ENTRIES:,} entries; put samples in a JSONL file (dataset.path)"
            raise YamlProblem(told, parent.start_mark.line + 1)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

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


def read_yaml(text: str) -> Any:
    """What the text says; None when it says nothing."""
    root = composed(text)
    return None if root is None else constructed(root)


def composed(text: str) -> yaml.Node | None:
    """The text as nodes, which know their lines."""
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _syntax_problem(error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        raise YamlProblem(f"contains a character that YAML does not allow (#x{error.character:04x}); remove it", line) from None
    except RecursionError:
        raise YamlProblem("is nested too deeply; flatten it") from None


def constructed(root: yaml.Node) -> Any:
    """The values that nodes stand for."""
    _refuse_oddities(root)
    loader = _Loader("")
    try:
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        raise _syntax_problem(error) from None
    except (RecursionError, ValueError, TypeError) as error:
        raise YamlProblem(f"is not usable YAML: {error or type(error).__name__}") from None
    finally:
        loader.dispose()


def _syntax_problem(error: yaml.MarkedYAMLError) -> YamlProblem:
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
    return YamlProblem(f"is not valid YAML{where}: {problem}{hint}", mark.line + 1 if mark is not None else None)


def _refuse_oddities(root: yaml.Node) -> None:
    """Keys that are there twice (YAML would silently take the last), circles, and documents that unfold without end."""
    seen = 0
    waiting: list[tuple[yaml.Node, int, frozenset[int]]] = [(root, 1, frozenset())]
    while waiting:
        node, depth, above = waiting.pop()
        seen += 1
        line = node.start_mark.line + 1
        if id(node) in above:
            raise YamlProblem("an alias refers to what contains it; break the circle", line)
        if depth > DEEPEST:
            raise YamlProblem(f"is nested more than {DEEPEST} levels deep; flatten it", line)
        if seen > MOST_NODES:
            raise YamlProblem("unfolds into more than a million values; keep data in a file of its own")
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
            raise YamlProblem(f"key {key.value!r} is there twice, first in line {first[key.value]}; keep one", line)
        first[key.value] = line


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
