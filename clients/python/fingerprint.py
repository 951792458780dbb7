"""What a function of a program is: its source, and whatever it closes over, by content, so that the same program finds the same
run again, and another one is another run.

Comments and layout count for nothing. Functions, classes and values of the user's own that it reaches by name count as it does;
what is installed counts by name. A value whose content nobody knows, such as a client, counts by its type, and is named.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import datetime
import decimal
import dis
import enum
import functools
import hashlib
import inspect
import pathlib
import re
import sys
import textwrap
import types
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pydantic

from clients.checks.plugin_process import file_of, is_own
from ratchet._declared.declarations import DECLARED
from ratchet._formats.canonical import content_hash

LENGTH: Final = 16
MOST_VALUES: Final = 200_000
"""Beyond it a value counts by its type: whoever closes over so much should say its version."""

_BY_TEXT: Final = (
    *(datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID, pathlib.PurePath, complex, range),
)
_WITHOUT_CONTENT: Final = ("asyncio", "threading", "thread", "logging", "concurrent", "multiprocessing", "io", "uvloop")
"""Packages whose objects are means to an end: it says nothing that they count by their type."""

_LOADED: Final = ("LOAD_GLOBAL", "LOAD_NAME")


@dataclasses.dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a function is."""

    text: str
    by_type: tuple[str, ...]
    """What counts by its type alone: the name it has in the code, and the type."""


def fingerprint_of(*functions: Any) -> Fingerprint:
    """Read a function, or several together, and all that they reach; values that a function is given may be among them."""
    reading = _Reading()
    each = [reading.described(function, getattr(function, "__name__", "fixtures")) for function in functions]
    described = each[0] if len(each) == 1 else ["together", each]
    return Fingerprint(content_hash(described)[:LENGTH], tuple(dict.fromkeys(reading.by_type)))


class _Reading:
    """One function, read to its end; what it reaches twice, or what reaches itself, is described once."""

    def __init__(self) -> None:
        self.by_type: list[str] = []
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        """So that no id is used twice while we read."""
        self._values = 0

    def described(self, value: Any, name: str) -> Any:
        """A value as JSON that is the same whenever its content is."""
        if isinstance(value, bool | int | str | None) and not isinstance(value, enum.Enum):
            return [type(value).__name__, str(value)]
        if isinstance(value, (float, bytes, bytearray, *_BY_TEXT)):
            return [type(value).__name__, hashlib.sha256(repr(value).encode()).hexdigest()]
        if id(value) in self._seen:
            return ["again", self._seen[id(value)]]
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        self._values += 1
        found = None if self._values > MOST_VALUES else self._content(value, name)
        if found is None:
            package, kind = type(value).__module__.partition(".")[0].lstrip("_"), type(value).__qualname__
            if package not in _WITHOUT_CONTENT:
                self.by_type.append(f"{name} ({type(value).__module__}.{kind})")
            return ["type", type(value).__module__, kind]
        return found

    def _content(self, value: Any, name: str) -> Any:
        match value:
            case enum.Enum():
                return ["enum", type(value).__qualname__, value.name]
            case re.Pattern():
                return ["pattern", repr(value.pattern), value.flags]
            case list() | tuple() | collections.deque():
                return ["list", [self.described(part, f"{name}[{place}]") for place, part in enumerate(value)]]
            case set() | frozenset():
                return ["set", sorted(content_hash(self.described(part, name)) for part in value)]
            case functools.partial():
                return ["partial", *self._parts(name, func=value.func, args=value.args, keywords=value.keywords)]
            case types.ModuleType():
                return self._module(value)
            case types.MethodType():
                return ["method", *self._parts(name, function=value.__func__, of=value.__self__)]
            case types.FunctionType():
                return self._function(value)
            case types.BuiltinFunctionType():
                return ["builtin", value.__module__, value.__qualname__]
            case type():
                return self._class(value)
            case Mapping():
                items = sorted(value.items(), key=lambda item: str(item[0]))
                return [
                    "mapping",
                    [[self.described(key, name), self.described(item, f"{name}[{key!r}]")] for key, item in items],
                ]
        return self._instance(value, name)

    def _parts(self, name: str, **parts: Any) -> Iterator[Any]:
        for part, value in parts.items():
            yield self.described(value, f"{name}.{part}")

    def _function(self, function: types.FunctionType) -> Any:
        unwrapped = getattr(function, "__wrapped__", None)
        if not _is_of_user(function.__module__):
            named = ["installed", function.__module__, function.__qualname__]
            return named if unwrapped is None else [*named, self.described(unwrapped, function.__name__)]
        inner = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        reached = {cell: content.cell_contents for cell, content in inner if _is_filled(content)}
        reached |= {name: function.__globals__[name] for name in _globals_of(function.__code__) if name in function.__globals__}
        reached |= {f"a default {place}": value for place, value in enumerate(function.__defaults__ or ())}
        reached |= function.__kwdefaults__ or {}
        return ["function", _source_of(function), [[name, self.described(reached[name], name)] for name in reached]]

    def _class(self, one: type) -> Any:
        if not _is_of_user(one.__module__):
            return ["installed", one.__module__, one.__qualname__]
        try:
            source = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(one))))
        except (OSError, TypeError, SyntaxError):
            source = ""
        parts = {
            name: part for name, part in vars(one).items() if isinstance(part, types.FunctionType | staticmethod | classmethod)
        }
        functions = {name: getattr(part, "__func__", part) for name, part in parts.items()}
        bases = [self.described(base, base.__name__) for base in one.__bases__]
        return ["class", one.__qualname__, source, bases, [self.described(functions[name], name) for name in functions]]

    def _module(self, module: types.ModuleType) -> Any:
        path = file_of(module)
        if path is None or not _is_of_user(module.__name__):
            return ["module", module.__name__]
        inner = {name: part for name, part in vars(module).items() if isinstance(part, types.ModuleType)}
        reached = [self.described(inner[name], name) for name in sorted(inner)]
        return ["module", module.__name__, hashlib.sha256(path.read_bytes()).hexdigest(), reached]

    def _instance(self, value: Any, name: str) -> Any:
        kind, wrapped = type(value), getattr(value, "__wrapped__", None)
        if wrapped is not None:
            return ["wrapped", kind.__qualname__, self.described(wrapped, name)]
        if isinstance(value, pydantic.BaseModel) or dataclasses.is_dataclass(value) or _is_of_user(kind.__module__):
            slots = [slot for base in kind.__mro__ for slot in getattr(base, "__slots__", ())]
            state = {slot: getattr(value, slot) for slot in slots if hasattr(value, slot)} | getattr(value, "__dict__", {})
            described = [[part, self.described(state[part], f"{name}.{part}")] for part in sorted(state)]
            return ["instance", self.described(kind, kind.__name__), described]
        return None


def _is_of_user(module: str | None) -> bool:
    """Whether a module is the user's own, the program itself among them."""
    if module is None or module == "__main__":
        return True
    path = file_of(sys.modules.get(module))
    return path is not None and is_own(module, path, None)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # a name that is not bound yet
        return False
    return True


def _source_of(function: types.FunctionType) -> Any:
    """The source without comments and layout. Lambdas, and what was typed in somewhere, are known by what they compile to."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return _compiled(function.__code__)
    defines = len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef | ast.AsyncFunctionDef)
    if DECLARED in function.__dict__ and isinstance(tree.body[0], ast.FunctionDef | ast.AsyncFunctionDef):
        tree.body[0].decorator_list = []  # what is declared of it says how it is measured, not what it does
    return ast.unparse(tree) if defines else _compiled(function.__code__)


def _compiled(code: types.CodeType) -> Any:
    inner = [_compiled(part) if isinstance(part, types.CodeType) else _constant(part) for part in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), list(code.co_varnames), inner]


def _constant(value: Any) -> Any:
    """Sets of constants are in another order in every process."""
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def _globals_of(code: types.CodeType) -> list[str]:
    """The global names that code, and what is defined within it, loads."""
    found = {str(step.argval) for step in dis.get_instructions(code) if step.opname in _LOADED}
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            found.update(_globals_of(part))
    return sorted(name for name in found if name.isidentifier())  # pytest rewrites assertions, with names of its own
