"""What a spec means where it says nothing, if that depends on its optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "compress": {
        "judgement": {"rule": "non_inferiority", "accept": "shorter", "correction": "none"},
        "stop": {"no_improvement": 0},
        "replicates": 3,
    },
    "evolve": {"judgement": {"accept": "better", "test": "mann_whitney"}},
    "few_shot": {"stop": {"no_improvement": 0}},
    "search": {"stop": {"no_improvement": 0}},
}
"""By optimizer and part of the spec. What the spec says itself counts."""


def with_defaults(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec with what its optimizer takes for granted."""
    optimizer = spec.get("optimizer")
    name = optimizer.get("name") if isinstance(optimizer, Mapping) else getattr(optimizer, "name", optimizer)
    completed = dict(spec)
    for part, default in DEFAULTS.get(name, {}).items() if isinstance(name, str) else ():
        given = spec.get(part)
        if isinstance(default, Mapping):
            if given is None or isinstance(given, Mapping):
                completed[part] = {**default, **(given or {})}
        elif part not in spec:
            completed[part] = default
    return completed
