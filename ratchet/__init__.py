"""Ratchet's public package: the types that plug-ins are written against, and runs of a program's own functions.

Importing it pulls in neither Temporal nor any other part of Ratchet. The optimizer protocol stands on pydantic, and `optimize`
and its like on the engine; each is loaded when one of its names is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ratchet.experiment import (
    current_experiment,
    experiment_from_headers,
    experiment_from_input,
    experiment_headers,
    in_experiment,
)
from ratchet.plugins import ExperimentContext, Output, Record, Sample, Score, TryAgain

if TYPE_CHECKING:
    from clients.python.api import Result as Result
    from clients.python.api import Run as Run
    from clients.python.api import aoptimize as aoptimize
    from clients.python.api import close as close
    from clients.python.api import compress as compress
    from clients.python.api import explore as explore
    from clients.python.api import measure as measure
    from clients.python.api import optimize as optimize
    from clients.python.api import start as start
    from ratchet._declared.use_cases import criterion as criterion
    from ratchet._declared.use_cases import factor_setter as factor_setter
    from ratchet._declared.use_cases import treatment_source as treatment_source
    from ratchet._declared.use_cases import use_case as use_case
    from ratchet._factors import choice as choice
    from ratchet._factors import flag as flag
    from ratchet._factors import frozen as frozen
    from ratchet._factors import integer as integer
    from ratchet._factors import json as json
    from ratchet._factors import number as number
    from ratchet._factors import order as order
    from ratchet._factors import text as text
    from ratchet.errors import RunError, SpecError
    from ratchet.optimizer import (
        CandidateProposal,
        Direction,
        Optimizer,
        OptimizerState,
        RunContext,
        StopDecision,
        StopFacts,
        StopReason,
        TrialFacts,
        TrialHistory,
    )

__all__ = [
    "CandidateProposal",
    "Direction",
    "ExperimentContext",
    "Optimizer",
    "OptimizerState",
    "Output",
    "Record",
    "RunContext",
    "RunError",
    "Sample",
    "Score",
    "SpecError",
    "StopDecision",
    "StopFacts",
    "StopReason",
    "TrialFacts",
    "TrialHistory",
    "TryAgain",
    "current_experiment",
    "experiment_from_headers",
    "experiment_from_input",
    "experiment_headers",
    "in_experiment",
]


_FACTORS = ("choice", "flag", "frozen", "integer", "json", "number", "order", "text")
_USE_CASES = ("criterion", "factor_setter", "treatment_source", "use_case")
_ENGINE = ("Result", "Run", "aoptimize", "close", "compress", "explore", "measure", "optimize", "start")
"""Not in `__all__`: `from ratchet import *` takes what needs no engine, and hides nothing of Python's own."""


if not TYPE_CHECKING:  # a type checker shall tell a misspelt name

    def __getattr__(name: str) -> Any:
        """Return a name that is loaded when it is asked for."""
        if name in _ENGINE:
            return getattr(import_module("ratchet._engine").python_api(name), name)
        if name in _FACTORS:
            return getattr(import_module("ratchet._factors"), name)
        if name in _USE_CASES:
            return getattr(import_module("ratchet._declared.use_cases"), name)
        if name in ("RunError", "SpecError"):
            return getattr(import_module("ratchet.errors"), name)
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("ratchet.optimizer"), name)


def __dir__() -> list[str]:
    """List the public names, those that are not loaded yet among them."""
    return sorted({*globals(), *__all__, *_FACTORS, *_USE_CASES, *_ENGINE})
