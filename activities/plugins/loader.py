"""Plug-ins: `package.module:attribute`, imported only from where the worker's operator allows it."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from activities.plugins.plugin_names import NotDefinedThere, defined_in
from activities.plugins.program import Program
from activities.plugins.source_hashes import source_hash
from activities.plugins.tracebacks import traceback_of
from workflows.model.failures import INVALID_REQUEST, described, one_line, shorten, with_traceback
from workflows.model.spec.extensions.named_plugins import is_of_program

if TYPE_CHECKING:
    from temporalio.exceptions import ApplicationError

_TOP = __name__.partition(".")[0]
CHECKOUT_NAMES = ("workflows", "activities", "store", "clients", "worker") if _TOP == "activities" else ()
"""Names that the engine takes in a checkout only: installed, all of it lies below one private package."""
OWN_NAMES = ("ratchet", *(CHECKOUT_NAMES or (_TOP,)))
"""Names of our own: a plug-in of the same name would be shadowed by them, or shadow them."""

ENVIRONMENT_VARIABLE = "RATCHET_PLUGINS"
IMPORT_FAILED = "importing it failed"
"""Begins what is told of a module that raises while it is imported, behind the reference."""

LONGEST_DESCRIPTION = 200
"""Characters of what a plug-in says of itself."""

VERSION = "version:"
"""Begins the fingerprint of a plug-in whose version the spec states."""


def invalid(message: str) -> ApplicationError:
    """An error that says what is wrong with the request and how to fix it; never retried."""
    # Imported when something is wrong: an isolated target resolves its plug-in without loading Temporal.
    from temporalio.exceptions import ApplicationError

    return ApplicationError(shorten(message), type=INVALID_REQUEST, non_retryable=True)


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A resolved plug-in."""

    reference: str
    call: Callable[..., Any]
    is_async: bool
    source_hash: str

    def taken(self, offered: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the offered keyword arguments that it has a parameter for."""
        try:
            parameters = inspect.signature(self.call).parameters.values()
        except (TypeError, ValueError):
            return {}
        named = {parameter.name for parameter in parameters if parameter.kind in _BY_NAME}
        return {name: value for name, value in offered.items() if name in named}

    def description(self) -> str | None:
        """What it says of itself in words, where it has a `description` of its own."""
        describe = getattr(self.call, "description", None)
        if not callable(describe):
            return None
        said = describe()
        if not isinstance(said, str) or not said.strip():
            raise ValueError(f"its description() returned {said!r:.50}; return a few words")
        return shorten(one_line(said), LONGEST_DESCRIPTION)

    def validate(self, values: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Let a plug-in look at each value that is new before it is used, where it has a `validate` of its own; that raises
        where a value is none that it stands for."""
        look = getattr(self.call, "validate", None)
        if callable(look):
            for name, value in values.items():
                if name not in before or value != before[name]:
                    look(value)


class Plugins:
    """Resolves references under allowed module prefixes; each is imported once per process."""

    def __init__(self, allowed: Sequence[str] = (), search_path: Path | None = None, program: Program | None = None) -> None:
        """`allowed` are module prefixes (`my_pkg` allows `my_pkg` and all below it). `search_path`, the spec's directory,
        comes last on the import path, so that it can never shadow what is installed; every module in it is allowed.
        `program` is the one that this worker runs in, where its functions are served."""
        self.allowed = tuple(prefix for prefix in (part.strip().strip(".") for part in allowed) if prefix)
        self.search_path = search_path.resolve() if search_path is not None else None
        self._program = program or Program()
        self._resolved: dict[tuple[str, int], Plugin] = {}
        if self.search_path is not None and str(self.search_path) not in sys.path:
            sys.path.append(str(self.search_path))

    @classmethod
    def from_environment(cls, value: str, search_path: Path | None = None, program: Program | None = None) -> Plugins:
        """As `RATCHET_PLUGINS` says: module prefixes, separated by commas."""
        return cls(value.split(","), search_path, program)

    def of_program(self, reference: str) -> bool:
        """Whether it is a function of the program that this worker runs in. It is never imported, and runs where it is."""
        return reference in self._program.functions

    def import_elsewhere(self, reference: str) -> dict[str, Any]:
        """What another process is told to import it."""
        own = self._program.functions.get(reference)
        if own is None:
            place = None if self.search_path is None else str(self.search_path)
            return {"reference": reference, "allowed": list(self.allowed), "search_path": place}
        if own.place is None:
            raise invalid(f"plug-in {reference}: no other process can import it; define it at the top level of a module")
        module, directory = own.place.reference.partition(":")[0], own.place.directory
        found = {"reference": own.place.reference, "allowed": [module]}
        return {**found, "search_path": None if directory is None else str(directory)}

    def resolve(self, reference: str, arguments: int) -> Plugin:
        """The plug-in behind a reference, which must accept so many positional arguments."""
        # No lock: the import system has one per module, and one of ours would let a module that hangs stop all others.
        key = (reference, arguments)
        known = self._resolved.get(key)
        return known if known is not None else self._resolved.setdefault(key, self._load(reference, arguments))

    def fingerprint(self, reference: str, version: str | None) -> str:
        """What the plug-in is: the version the spec states, or a hash of its source."""
        plugin = self.resolve(reference, 0)
        return f"{VERSION}{version}" if version is not None else plugin.source_hash

    def fingerprints(
        self, references: Mapping[str, str | None], arguments: Mapping[str, Sequence[int]] | None = None
    ) -> dict[str, str]:
        """What every plug-in is, once it is certain that it can be called with so many positional arguments."""
        for reference, counts in (arguments or {}).items():
            for count in counts:
                self.resolve(reference, count)
        return {reference: self.fingerprint(reference, version) for reference, version in references.items()}

    def descriptions(self, references: Sequence[str]) -> dict[str, str]:
        """What plug-ins say of themselves, those that do."""
        said: dict[str, str] = {}
        for reference in references:
            try:
                words = self.resolve(reference, 0).description()
            except Exception as error:
                told = str(error) if isinstance(error, ValueError) else f"its description() raised {described(error)}"
                raise invalid(f"plug-in {reference}: {told}") from error
            if words is not None:
                said[reference] = words
        return said

    def _load(self, reference: str, arguments: int) -> Plugin:
        own = self._program.functions.get(reference)
        if own is not None:
            return _plugin(reference, own.call, arguments, source_hash="")
        module_name, _, path = reference.partition(":")
        self._refuse_forbidden(reference, module_name)
        module = self._imported(reference, module_name)
        try:
            target = defined_in(module, path, self.permits)
        except NotDefinedThere as error:
            raise invalid(f"plug-in {reference}: {error}") from None
        if not callable(target):
            raise invalid(f"plug-in {reference}: is a {type(target).__name__}, not callable; refer to a function")
        return _plugin(reference, target, arguments, _source_hash(module_name, path, target))

    def _refuse_forbidden(self, reference: str, module_name: str) -> None:
        top = module_name.partition(".")[0]
        if is_of_program(reference):
            raise invalid(f"plug-in {reference}: is a function of the program that started the run, which alone serves it")
        if top in OWN_NAMES:
            told = f"plug-in {reference}: {top!r} is a module of Ratchet itself; rename yours and refer to the new name"
            if top in CHECKOUT_NAMES:
                told += ", or use an installed Ratchet, which does not take it"
            raise invalid(told)
        if self.permits(module_name):
            return
        if self.search_path is not None and any((self.search_path / name).exists() for name in (top, f"{top}.py")):
            raise invalid(
                f"plug-in {reference}: another module named {top!r} is installed and comes before the one beside the spec; "
                "rename yours and refer to the new name"
            )
        allowed = ", ".join(self.allowed) or "none"
        raise invalid(
            f"plug-in {reference}: this worker does not allow module {module_name!r} (allowed: {allowed}); "
            f"its operator can add it to {ENVIRONMENT_VARIABLE}"
        )

    def permits(self, module_name: str) -> bool:
        """Whether plug-ins may be defined in this module."""
        top = module_name.partition(".")[0]
        if top in OWN_NAMES:
            return False
        if any(module_name == prefix or module_name.startswith(f"{prefix}.") for prefix in self.allowed):
            return True
        return self.search_path is not None and self._in_search_path(top)

    def _in_search_path(self, top: str) -> bool:
        """Whether the import of this name ends in the spec's directory, not in an installed package or the standard library."""
        assert self.search_path is not None
        if top in sys.builtin_module_names or top in sys.stdlib_module_names:
            return False
        spec = PathFinder.find_spec(top)
        return spec is not None and any(self.search_path in place.parents for place in _places(spec))

    def _imported(self, reference: str, module_name: str) -> Any:
        importlib.invalidate_caches()
        try:
            return importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
                where = f" or in {self.search_path}" if self.search_path is not None else ""
                raise invalid(
                    f"plug-in {reference}: there is no module {error.name!r} on the worker's import path{where}; "
                    "install it there or correct the reference"
                ) from None
            raise _broken_import(reference, f"{error}; install what is missing", error) from error
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise _broken_import(reference, f"{described(error)}; mend it, or set what it needs", error) from error


def _broken_import(reference: str, told: str, error: BaseException) -> ApplicationError:
    return invalid(with_traceback(f"plug-in {reference}: {IMPORT_FAILED}: {told}", traceback_of(error)))


def _places(spec: ModuleSpec) -> list[Path]:
    places = list(spec.submodule_search_locations or ())
    if spec.origin is not None and spec.has_location:
        places.append(spec.origin)
    return [Path(place).resolve() for place in places]


def _is_async(target: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004


MAY_LEAVE_OUT_THE_LAST = 3
"""Targets and proposers are called with so many arguments; they may do without the last of them."""


def _plugin(reference: str, target: Callable[..., Any], arguments: int, source_hash: str) -> Plugin:
    """The plug-in, called with as many of the arguments as it takes."""
    call = target
    if arguments and not _takes(target, arguments):
        if arguments != MAY_LEAVE_OUT_THE_LAST or not _takes(target, arguments - 1):
            fewer = f", or with {arguments - 1} of them" if arguments == MAY_LEAVE_OUT_THE_LAST else ""
            raise invalid(
                f"plug-in {reference}: is called with {arguments} positional arguments{fewer}, "
                f"but takes {inspect.signature(target)}; change its parameters"
            )
        call = _without_the_last(target)
    return Plugin(reference, call, _is_async(target), source_hash)


def _without_the_last(target: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(target)
    def call(*arguments: Any, **named: Any) -> Any:
        return target(*arguments[:-1], **named)

    return call


def _takes(target: Callable[..., Any], arguments: int) -> bool:
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return True  # some callables written in C do not tell
    try:
        signature.bind(*[None] * arguments)
    except TypeError:
        return False
    return True


def _source_hash(module_name: str, path: str, target: Any) -> str:
    """The hash of what it depends on in the file that defines it, which may not be the module that the reference names."""
    defining = sys.modules.get(getattr(target, "__module__", None) or module_name) or sys.modules[module_name]
    file = getattr(defining, "__file__", None) or getattr(sys.modules[module_name], "__file__", None)
    if file is None:
        raise invalid(f"module {module_name!r} has no source file; state a version for the plug-in in the spec")
    name: str = getattr(target, "__qualname__", path)
    return source_hash(Path(file).read_bytes(), name.partition(".")[0])
