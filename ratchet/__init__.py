"""Ratchet's public package: the types that plug-ins are written against.

Importing it pulls in neither Temporal nor any other part of Ratchet. Only the optimizer protocol stands on pydantic, and is
loaded when one of its names is asked for.
"""

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
    "Sample",
    "Score",
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


def __getattr__(name: str) -> Any:
    """Return a name of the optimizer protocol."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ratchet import optimizer

    return getattr(optimizer, name)


def __dir__() -> list[str]:
    """List the public names, those that are not loaded yet among them."""
    return sorted({*globals(), *__all__})
