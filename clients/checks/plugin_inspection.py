"""Import the plug-ins of a spec in a process of its own.

Plug-ins are other people's code: they print, they raise, they end the process. What they are is told as one JSON object on
the standard output that this process was given; whatever they print themselves goes to standard error.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from activities.plugins.loader import CHECKOUT_NAMES, IMPORT_FAILED, OWN_NAMES
from clients.checks.name_clashes import name_clash
from clients.own_modules import module_command, python_path
from clients.settings import environment_of_children
from ratchet._formats.canonical import content_hash
from ratchet._processes.child_process import begin_piped
from workflows.model.activities.optimizer_steps import OwnOptimizer
from workflows.model.spec.request import OptimizationRequest

IMPORTING_TAKES_AT_MOST = 120.0
OUR_OWN = {*OWN_NAMES, "__main__"}
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD_LIBRARY = tuple({Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")})


@dataclass(frozen=True)
class PluginUse:
    """One place of a spec that names a plug-in, and how it will be called."""

    field: str
    reference: str
    arguments: int
    version: str | None
    optimizer: dict[str, Any] | None = None
    """The spec of an optimizer, when it is one."""


@dataclass(frozen=True)
class Inspection:
    """What the plug-ins of a spec are."""

    problems: dict[str, str]
    """By field."""
    fingerprints: dict[str, str]
    """By reference: the hash of its source, or the version the spec states."""
    sources: dict[str, str]
    """By module: the hash of each file of the user's own that importing the plug-ins loaded, wherever it lies."""
    files: dict[str, str] = field(default_factory=dict)
    """By path: the hash of each of these files, and of those that define a plug-in, wherever they are."""

    @property
    def code_hash(self) -> str:
        """Changes whenever any of the code does that a worker would answer with."""
        return content_hash({"plugins": self.fingerprints, "sources": self.sources})


def plugin_uses(request: OptimizationRequest) -> list[PluginUse]:
    """Every place where the spec names a plug-in."""
    own = request.optimizer.own_class
    optimizer = None if own is None else own.model_dump(mode="json")
    return [PluginUse(*plugin, optimizer if plugin.field == "optimizer.ref" else None) for plugin in request.plugins()]


def modules_of(uses: Sequence[PluginUse]) -> tuple[str, ...]:
    """The modules that plug-ins are in, which a worker of their own may import."""
    return tuple(sorted({use.reference.partition(":")[0] for use in uses}))


async def inspect_plugins(
    uses: Sequence[PluginUse], directory: Path | None, allowed: Sequence[str] | None = None
) -> Inspection:
    """Import plug-ins in a child process; one that crashes or hangs is a finding, not our end.

    Besides those in the directory only modules under the `allowed` prefixes are imported, by default those that are used.
    """
    if not uses:
        return Inspection({}, {}, {})
    place = None if directory is None else str(directory)
    prefixes = modules_of(uses) if allowed is None else allowed
    question = {"directory": place, "allowed": list(prefixes), "uses": [vars(use) for use in uses]}
    command, environment = module_command("clients.checks.plugin_inspection"), environment_of_children(PYTHONPATH=python_path())
    with tempfile.TemporaryFile() as complaints:
        child = await begin_piped(*command, env=environment, errors=complaints)
        try:
            output = await asyncio.wait_for(child.answer(json.dumps(question).encode()), IMPORTING_TAKES_AT_MOST)
        except TimeoutError:
            return _broken(uses, f"importing it takes more than {IMPORTING_TAKES_AT_MOST:g} s; do slow work when it is called")
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        complaints.seek(0)
        errors = complaints.read()
    try:
        answer = json.loads(output)
    except ValueError:
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
        return _broken(
            uses, f"importing it ends the process ({_how(child.returncode)}): {last[0][:300]}; make the module importable"
        )
    return Inspection(**answer)


def each_import_once(problems: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """A module that cannot be imported is told of the first place that names it, however many do."""
    failed: set[str] = set()
    for where, problem in problems.items():
        reference, _, told = problem.partition(": ")
        cause = f"{reference.partition(':')[0]}: {told}"
        if cause in failed:
            continue
        if told.startswith(IMPORT_FAILED):
            failed.add(cause)
        yield where, problem


def _how(code: int | None) -> str:
    return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"


def _broken(uses: Sequence[PluginUse], why: str) -> Inspection:
    return Inspection({uses[0].field: f"plug-in {uses[0].reference}: {why}"}, {}, {})


def main() -> None:
    """The child: a question on standard input, an answer on standard output."""
    question = json.loads(sys.stdin.read())
    answer_to = os.dup(1)
    os.dup2(2, 1)
    answer = _answer(question)
    with os.fdopen(answer_to, "w") as output:
        json.dump(answer, output)
    sys.stderr.flush()
    os._exit(0)  # threads that a plug-in started must not keep us


def _answer(question: Mapping[str, Any]) -> dict[str, Any]:
    from temporalio.exceptions import ApplicationError

    from activities.plugins.loader import Plugins
    from activities.proposals.optimizer_classes import refuse_no_optimizer

    uses = [PluginUse(**use) for use in question["uses"]]
    directory = Path(question["directory"]).resolve() if question["directory"] is not None else None
    plugins = Plugins(question["allowed"], directory)
    problems: dict[str, str] = {}
    fingerprints: dict[str, str] = {}
    defining: set[str] = set()
    for use in uses:
        clash = None if directory is None else name_clash(use.reference, directory, CHECKOUT_NAMES)
        if clash is not None:
            problems[use.field] = clash
            continue
        try:
            plugin = plugins.resolve(use.reference, use.arguments)
            defining |= {use.reference.partition(":")[0], getattr(plugin.call, "__module__", None) or ""}
            if use.optimizer is not None:
                refuse_no_optimizer(plugins, OwnOptimizer.model_validate(use.optimizer))
            fingerprints[use.reference] = plugins.fingerprint(use.reference, use.version)
        except ApplicationError as error:
            problems[use.field] = error.message
    places = {name: path for name, module in list(sys.modules.items()) if (path := file_of(module)) is not None}
    own = {name: path for name, path in places.items() if is_own(name, path, directory)}
    loaded = {*own.values(), *(places[name] for name in defining if name in places)}
    hashes = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in loaded}
    return {
        "problems": problems,
        "fingerprints": fingerprints,
        "sources": {name: hashes[path] for name, path in own.items()},
        "files": {str(path): content for path, content in hashes.items()},
    }


def file_of(module: object) -> Path | None:
    """Where a module was loaded from."""
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


def is_own(name: str, path: Path, directory: Path | None) -> bool:
    """Whether a module is the user's own: neither ours, nor installed, nor of the standard library.

    The spec's directory may lie among what is installed, as that of an example does.
    """
    if name.partition(".")[0] in OUR_OWN or not path.is_file():
        return False
    if directory is not None and path.is_relative_to(directory):
        return not _INSTALLED & set(path.relative_to(directory).parts)
    return not _INSTALLED & set(path.parts) and not any(path.is_relative_to(place) for place in _STANDARD_LIBRARY)


def first_changed(files: Mapping[str, str]) -> str | None:
    """The first file that is not as it was; nothing is imported to find out."""
    for path, known in files.items():
        try:
            if hashlib.sha256(Path(path).read_bytes()).hexdigest() != known:
                return path
        except OSError:
            return path
    return None


if __name__ == "__main__":
    main()
