"""Ratchet's public package: the types that plug-ins are written against.

Importing it pulls in neither Temporal nor any other part of Ratchet.
"""

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
]
