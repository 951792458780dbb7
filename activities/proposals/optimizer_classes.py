"""Whether what a spec names as its optimizer is one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from activities.plugins.loader import Plugins, invalid
from workflows.model.activities.optimizer_steps import OwnOptimizer
from workflows.model.failures import described
from workflows.rules.proposals.optimizer_step import METHODS


def refuse_no_optimizer(plugins: Plugins, optimizer: OwnOptimizer) -> None:
    """Refuse what has not the methods of an optimizer, or does not take its options, before anything is spent."""
    found = plugins.resolve(optimizer.ref, 0).call
    missing = [name for name in METHODS if not callable(getattr(found, name, None))]
    if not inspect.isclass(found) or missing:
        lacks = f"has no {' and no '.join(missing)}" if inspect.isclass(found) else f"is a {type(found).__name__}, not a class"
        raise invalid(f"optimizer {optimizer.ref}: {lacks}; refer to a class with {', '.join(METHODS)} (ratchet.Optimizer)")
    _refuse_wrong_options(optimizer.ref, found, optimizer.options)


def _refuse_wrong_options(ref: str, found: type, options: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return  # some classes written in C do not tell
    try:
        signature.bind(**options)
    except TypeError as error:
        raise invalid(f"optimizer {ref}: optimizer.options do not fit, {described(error)}; it takes {signature}") from None
