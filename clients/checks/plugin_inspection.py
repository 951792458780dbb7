"""What the plug-ins of a spec are, found out in a process of their own (`plugin_process`)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from activities.plugins.loader import IMPORT_FAILED
from clients.checks.plugin_process import PluginUse
from clients.own_modules import module_command, python_path
from clients.settings import environment_of_children
from ratchet._formats.canonical import content_hash
from ratchet._processes.child_process import begin_piped
from workflows.model.spec.request import OptimizationRequest

IMPORTING_TAKES_AT_MOST = 120.0


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
    command, environment = module_command("clients.checks.plugin_process"), environment_of_children(PYTHONPATH=python_path())
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


def first_changed(files: Mapping[str, str]) -> str | None:
    """The first file that is not as it was; nothing is imported to find out."""
    for path, known in files.items():
        try:
            if hashlib.sha256(Path(path).read_bytes()).hexdigest() != known:
                return path
        except OSError:
            return path
    return None
