"""The functions of a program that its spec names: each gets a reference, and a version that says what it is."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from temporalio.exceptions import ApplicationError

from activities.plugins.loader import Plugins
from activities.plugins.program import ImportablePlace, Program, ProgramFunction
from clients.checks.findings import Finding
from clients.checks.plugin_inspection import plugin_uses
from clients.python.fingerprint import fingerprint_of
from ratchet.errors import SpecError
from workflows.model.spec.extensions.named_plugins import PROGRAM
from workflows.model.spec.request import OptimizationRequest

LONGEST_NAME: Final = 60


@dataclass
class ProgramFunctions:
    """Every function that was named so far, by reference."""

    functions: dict[str, ProgramFunction] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    _references: dict[int, str] = field(default_factory=dict)

    def named(self, function: Callable[..., Any], where: str, part: dict[str, Any]) -> dict[str, Any]:
        """The part of a spec that names a function; the version that it states itself counts."""
        reference = self._references.get(id(function))
        if reference is None:
            name = name_of(function)
            taken = [known for known in self.functions if re.sub(r"_\d+$", "", known) == f"{PROGRAM}:{name}"]
            reference = f"{PROGRAM}:{name}_{len(taken) + 1}" if taken else f"{PROGRAM}:{name}"
            self.functions[reference] = ProgramFunction(function, _place_of(function))
            self._references[id(function)] = reference
        if part.get("pool") == "process" and self.functions[reference].place is None:
            raise SpecError(
                f"{where}.pool: is process, but {_shown(function)} cannot be imported by another process; "
                "define it at the top level of a module or script, or leave pool out"
            )
        if part.get("version") is not None:
            return {**part, "ref": reference}
        fingerprint = fingerprint_of(function)
        if fingerprint.by_type:
            named = ", ".join(fingerprint.by_type)
            self.warnings.append(
                f"{where}: {_shown(function)} closes over {named}, which counts by its type alone: "
                "a change in it goes unseen; say so by a version, as {'ref': function, 'version': '2'}"
            )
        return {**part, "ref": reference, "version": fingerprint.text}

    def findings(self, request: OptimizationRequest) -> list[Finding]:
        """What is wrong with how functions of the program would be called."""
        plugins = Plugins(program=Program(self.functions))
        found: list[Finding] = []
        for use in plugin_uses(request):
            try:
                if plugins.of_program(use.reference):
                    plugins.resolve(use.reference, use.arguments)
            except ApplicationError as error:
                found.append(Finding(f"{use.field}: {error.message}"))
        return found


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called, as a name that specs take."""
    given = getattr(function, "__name__", None) or type(function).__name__
    name = re.sub(r"\W", "", given, flags=re.ASCII)[:LONGEST_NAME].strip("_")
    return name if re.match(r"[A-Za-z]", name) else "function"


def _shown(function: Callable[..., Any]) -> str:
    return repr(getattr(function, "__qualname__", None) or type(function).__name__)


def _place_of(function: Callable[..., Any]) -> ImportablePlace | None:
    """Where another process imports it from, if it can."""
    name, module = getattr(function, "__qualname__", ""), sys.modules.get(getattr(function, "__module__", "") or "")
    if module is None or not re.fullmatch(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*", name):
        return None
    found: Any = module
    for step in name.split("."):
        found = getattr(found, step, None)
    if found is not function:
        return None
    return ImportablePlace(f"{module.__name__}:{name}", None) if module.__name__ != "__main__" else _in_script(module, name)


def _in_script(module: types.ModuleType, name: str) -> ImportablePlace | None:
    spec, file = module.__spec__, getattr(module, "__file__", None)
    if spec is not None and spec.name.rpartition(".")[2] != "__main__":  # python -m MODULE
        return ImportablePlace(f"{spec.name}:{name}", None)
    script = None if file is None else Path(file).resolve()
    return None if script is None or not script.stem.isidentifier() else ImportablePlace(f"{script.stem}:{name}", script.parent)
