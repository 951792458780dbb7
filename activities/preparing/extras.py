"""Packages that only some specs need, and whether this process has them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from workflows.model.spec.execution import OptimizerSpec
from workflows.model.spec.optimizers.search import SearchOptimizer

SAMPLERS = ("optuna",)
DISTRIBUTION = "ratchet-optimizer"


def with_package(package: str | None) -> str:
    """Return what to install for a package that is missing."""
    return f"{DISTRIBUTION}[{'search' if package in SAMPLERS else 'engine'}]"


def missing_extras(optimizer: OptimizerSpec | None) -> Iterator[str]:
    """What has to be installed before this optimizer can work here, with its field."""
    missing = [package for package in SAMPLERS if find_spec(package) is None] if isinstance(optimizer, SearchOptimizer) else []
    if missing:
        yield f"optimizer.name: search needs {' and '.join(missing)}; install {with_package(SAMPLERS[0])} where the workers run"
