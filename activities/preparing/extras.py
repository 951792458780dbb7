"""Packages that only some specs need, and whether this process has them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from workflows.model.spec.optimizer_options import OptimizerSpec

SAMPLERS = ("optuna",)
DISTRIBUTION = "ratchet-optimizer"


def with_package(package: str | None) -> str:
    """Return what to install for a package that is missing."""
    return f"{DISTRIBUTION}[{'search' if package in SAMPLERS else 'engine'}]"


def missing_extras(optimizer: OptimizerSpec | None) -> Iterator[str]:
    """What has to be installed before this optimizer can work here, with its field."""
    missing = [package for package in optimizer.packages if find_spec(package) is None] if optimizer is not None else []
    if optimizer is not None and missing:
        needed = f"{optimizer.name} needs {' and '.join(missing)}"
        yield f"optimizer.name: {needed}; install {with_package(missing[0])} where the workers run"
