"""The names that others may import from Ratchet."""

from __future__ import annotations

import ast
from pathlib import Path

import ratchet
import ratchet.experiment
import ratchet.optimizer
import ratchet.prompts
import ratchet.temporal
import ratchet.testing

MODULES = {
    "ratchet": ratchet,
    "ratchet.experiment": ratchet.experiment,
    "ratchet.optimizer": ratchet.optimizer,
    "ratchet.prompts": ratchet.prompts,
    "ratchet.temporal": ratchet.temporal,
    "ratchet.testing": ratchet.testing,
}


_LOADED_LATER = (
    *("_FACTORS", "_USE_CASES", "_ENGINE", "_OF_THE_ENGINE", "_MODELS"),
    *("_DECLARATIONS", "_BODIES", "_INTERFACE", "_REQUESTS", "_PLUGIN"),
)
"""Where modules list what they load when it is asked for."""


def public_names(module: str) -> list[str]:
    """The names that others may import from a module: those that it says itself, and in `ratchet.optimizer` what it defines."""
    found = MODULES[module]
    if module == "ratchet.optimizer":
        imported = {alias.asname or alias.name for node in _imports(found.__file__ or "") for alias in node.names}
        # What pytest adds to the modules that it rewrites is no name that anybody could write.
        return [name for name in vars(found) if name.isidentifier() and not name.startswith("_") and name not in imported]
    loaded = [name for names in _LOADED_LATER for name in getattr(found, names, ())]
    return [*getattr(found, "__all__", ()), *loaded]


def _imports(path: str) -> list[ast.Import | ast.ImportFrom]:
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
