"""Import the plug-ins of a spec in a process of its own.

Plug-ins are other people's code: they print, they raise, they end the process. What they are is told as one JSON object on
the standard output that this process was given; whatever they print themselves goes to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from activities.plugins.loader import CHECKOUT_NAMES, OWN_NAMES
from clients.checks.name_clashes import name_clash
from clients.own_modules import module_command, python_path
from ratchet._canonical import content_hash
from workflows.model.activities.optimizer_steps import OwnOptimizer
from workflows.model.spec.request import OptimizationRequest

IMPORTING_TAKES_AT_MOST = 120.0
OUR_OWN = {*OWN_NAMES, "__main__"}


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
    """By module: the hash of each file beside the spec that importing the plug-ins loaded."""
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


async def inspect_plugins(uses: Sequence[PluginUse], directory: Path) -> Inspection:
    """Import plug-ins in a child process; one that crashes or hangs is a finding, not our end."""
    if not uses:
        return Inspection({}, {}, {})
    question = {"directory": str(directory), "uses": [vars(use) for use in uses]}
    child = await asyncio.create_subprocess_exec(
        *module_command("clients.checks.plugin_inspection"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": python_path()},
        start_new_session=True,
    )
    try:
        output, errors = await asyncio.wait_for(child.communicate(json.dumps(question).encode()), IMPORTING_TAKES_AT_MOST)
    except TimeoutError:
        return _broken(uses, f"importing it takes more than {IMPORTING_TAKES_AT_MOST:g} s; do slow work when it is called")
    finally:
        if child.returncode is None:
            _end_group(child.pid)
            await child.wait()
    try:
        answer = json.loads(output)
    except ValueError:
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
        return _broken(
            uses, f"importing it ends the process ({_how(child.returncode)}): {last[0][:300]}; make the module importable"
        )
    return Inspection(**answer)


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


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
    directory = Path(question["directory"]).resolve()
    plugins = Plugins([use.reference.partition(":")[0] for use in uses], directory)
    problems: dict[str, str] = {}
    fingerprints: dict[str, str] = {}
    defining: set[str] = set()
    for use in uses:
        if (clash := name_clash(use.reference, directory, CHECKOUT_NAMES)) is not None:
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
    places = {name: path for name, module in list(sys.modules.items()) if (path := _file_of(module)) is not None}
    beside = {name: path for name, path in places.items() if _is_beside(name, path, directory)}
    loaded = {*beside.values(), *(places[name] for name in defining if name in places)}
    hashes = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in loaded}
    return {
        "problems": problems,
        "fingerprints": fingerprints,
        "sources": {name: hashes[path] for name, path in beside.items()},
        "files": {str(path): content for path, content in hashes.items()},
    }


def _file_of(module: object) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


def _is_beside(name: str, path: Path, directory: Path) -> bool:
    """Whether a module is the spec's own: in its directory, and neither ours nor installed."""
    if not path.is_relative_to(directory) or name.partition(".")[0] in OUR_OWN:
        return False
    return not {"site-packages", "dist-packages"} & set(path.relative_to(directory).parts)


if __name__ == "__main__":
    main()
