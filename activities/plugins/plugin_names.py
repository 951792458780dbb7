"""What the name behind the colon of a plug-in reference stands for: only what the module itself defines.

A module can reach everything that it imports, `os` and the worker's environment among it. An operator who allows a module
allows the callables that it defines, not all that lies within its reach.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


class NotDefinedThere(ValueError):
    """The name stands for nothing, or for something that is defined elsewhere."""


def defined_in(module: ModuleType, path: str, permits: Callable[[str], bool]) -> Any:
    """Return what the dotted path names, callable or not.

    The path leads through classes and objects of the module, never through other modules. `permits` says of a
    module's name whether plug-ins may be defined there: a package may offer what its parts define.
    """
    found: Any = module
    for step in path.split("."):
        if step.startswith("_"):
            raise NotDefinedThere(f"{step!r} begins with an underscore, which is private; refer to a public name")
        try:
            found = getattr(found, step)
        except AttributeError:
            raise NotDefinedThere(f"module {module.__name__} has no {path!r}; check the name after the colon") from None
        if isinstance(found, ModuleType):
            raise NotDefinedThere(
                f"{step!r} is the module {found.__name__!r}; write the module that defines the plug-in before the colon"
            )
    if not callable(found):
        return found
    home = _home_of(found)
    if home == module.__name__ or permits(home) or _is_made_by(module, path):
        return found
    raise NotDefinedThere(
        f"{path!r} is not defined in {module.__name__!r} but in {home!r}; refer to a function or a class "
        "that the module itself defines"
    )


def _home_of(found: Any) -> str:
    """The name of the module that defines a callable; of a method, the module of its object's class."""
    if isinstance(found, functools.partial):
        return _home_of(found.func)
    owner = getattr(found, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        found = owner
    if not (inspect.isroutine(found) or inspect.isclass(found)):
        found = type(found)
    home = getattr(found, "__module__", None)
    return home if isinstance(home, str) else "builtins"


def _is_made_by(module: ModuleType, path: str) -> bool:
    """Whether the module's source makes the thing itself: with `def` or `class`, decorated by whomever, or as what a call
    returns. A name that is imported, or another name for something that is, is not made there."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # built in, or no source at hand
    made = [path in names for names in map(_names_made_by, _statements(tree.body))]
    return any(made) and not any(path in _names_taken_by(statement) for statement in _statements(tree.body))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of the module itself, also below `if` and `try`."""
    for statement in body:
        yield statement
        for part in ("body", "orelse", "finalbody"):
            if isinstance(statement, ast.If | ast.Try | ast.With):
                yield from _statements(getattr(statement, part, []))
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body)


def _names_made_by(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Assign(value=ast.Call()):
            return {target.id for target in statement.targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(value=ast.Call(), target=ast.Name(id=name)):
            return {name}
    return set()


def _names_taken_by(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name for alias in statement.names}
        case ast.Assign(value=ast.Name() | ast.Attribute()):
            return {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return set()
