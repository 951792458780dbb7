"""The process in which the plug-ins of a spec are imported.

Plug-ins are other people's code: they print, they raise, they end the process. What they are is told as one JSON object on
the standard output that this process was given; whatever they print themselves goes to standard error.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.exceptions import ApplicationError

from activities.plugins.loader import CHECKOUT_NAMES, OWN_NAMES, Plugins
from clients.checks.name_clashes import name_clash

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
                _refuse_no_optimizer(plugins, use.optimizer)
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


def _refuse_no_optimizer(plugins: Plugins, optimizer: Mapping[str, Any]) -> None:
    """Loads what only specs with an optimizer of their own need."""
    from activities.proposals.optimizer_classes import refuse_no_optimizer
    from workflows.model.activities.optimizer_steps import OwnOptimizer

    refuse_no_optimizer(plugins, OwnOptimizer.model_validate(optimizer))


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


if __name__ == "__main__":
    main()
