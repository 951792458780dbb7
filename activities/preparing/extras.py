"""Packages that only some specs need, and whether this process has them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from workflows.model.spec.extensions.optimizer_options import OptimizerSpec

SAMPLERS = ("optuna",)
DISTRIBUTION = "ratchet-optimizer"
OF_PROVIDERS = {"anthropic": "anthropic", "google": "google.genai", "bedrock": "boto3"}
"""What a provider of models needs beside the engine. The extra that brings it has the provider's name."""


def with_package(package: str | None) -> str:
    """Return what to install for a package that is missing."""
    return f"{DISTRIBUTION}[{'search' if package in SAMPLERS else 'engine'}]"


def missing_extras(optimizer: OptimizerSpec | None) -> Iterator[str]:
    """What has to be installed before this optimizer can work here, with its field."""
    missing = [package for package in optimizer.packages if find_spec(package) is None] if optimizer is not None else []
    if optimizer is not None and missing:
        needed = f"{optimizer.name} needs {' and '.join(missing)}"
        yield f"optimizer.name: {needed}; install {with_package(missing[0])} where the workers run"


def missing_provider(provider: str) -> str | None:
    """What to do before this process can ask a provider's models; None where nothing is missing."""
    package = OF_PROVIDERS.get(provider)
    if package is None or _is_there(package):
        return None
    return f"run where the workers run: pip install '{DISTRIBUTION}[{provider}]'"


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False
