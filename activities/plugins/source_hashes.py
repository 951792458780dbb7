"""What a plug-in's code is, by hash: its file without the functions that it cannot reach.

A target and its scorers often share a file. Mending a scorer must not make the target another one, whose answers are paid for
again; whatever both use, does.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_REACHES_ANYTHING: Final = frozenset({"globals", "locals", "vars", "eval", "exec", "__import__", "modules"})
"""A file that uses one of these may reach its functions by other ways than their names."""

MOST_TRIES: Final = 10
"""At reading a file in which nothing is wrong."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=64)
def source_hash(source: bytes, name: str) -> str:
    """The hash of what the plug-in of this name depends on in its file; of all of it where that cannot be told apart."""
    left_out = _lines_out_of_reach(source, name)
    lines = enumerate(source.splitlines(keepends=True), start=1)
    kept = [line for number, line in lines if number not in left_out and line.strip()]
    return hashlib.sha256(b"".join(kept)).hexdigest()


def _lines_out_of_reach(source: bytes, name: str) -> set[int]:
    try:
        tree = _parsed(source)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    # What is decorated, and every class, does something when the module is imported.
    functions = {node.name: node for node in tree.body if isinstance(node, Function) and not node.decorator_list}
    named_once = [node.name for node in tree.body if isinstance(node, Function | ast.ClassDef)]
    functions = {each: node for each, node in functions.items() if named_once.count(each) == 1}
    always = [node for node in tree.body if node not in functions.values()]
    reached = {name, *_names(always)}
    if name not in functions and name not in _names(always):
        return set()
    waiting = [each for each in reached if each in functions]
    while waiting:
        further = _names([functions[waiting.pop()]]) - reached
        reached |= further
        waiting += [each for each in further if each in functions]
    if reached & _REACHES_ANYTHING:
        return set()
    unreached = [node for each, node in functions.items() if each not in reached]
    return {number for node in unreached for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


@lru_cache(maxsize=2)
def _parsed(source: bytes) -> ast.Module:
    """The tree, which the next plug-in of the file needs, too. Where threads take turns, Python 3.11 says now and then of a
    good file that it miscounted its depth."""
    for _ in range(MOST_TRIES):
        try:
            return ast.parse(source)
        except SystemError as error:
            wrong = error
    raise wrong


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name that occurs, be it of a variable, an attribute, a class, an import, or in a text."""
    found: set[str] = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        match node:
            case ast.Name(id=named) | ast.ClassDef(name=named) | ast.Constant(value=str(named)):
                found.add(named)
            case ast.Attribute(attr=named):
                found.add(named)
            case ast.alias(name=named, asname=other):
                found |= {other or named}
    return found
