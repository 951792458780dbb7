"""Ratchet's public package: the types that plug-ins are written against.

Importing it pulls in neither Temporal nor any other part of Ratchet.
"""

from ratchet.experiment import (
    current_experiment,
    experiment_from_headers,
    experiment_from_input,
    experiment_headers,
    in_experiment,
)
from ratchet.optimizer import (
    CandidateProposal,
    Direction,
    Optimizer,
    OptimizerState,
    RunContext,
    StopDecision,
    StopReason,
    TrialFacts,
    TrialHistory,
)
from ratchet.plugins import ExperimentContext, Output, Record, Sample, Score

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
    "StopReason",
    "TrialFacts",
    "TrialHistory",
    "current_experiment",
    "experiment_from_headers",
    "experiment_from_input",
    "experiment_headers",
    "in_experiment",
]
