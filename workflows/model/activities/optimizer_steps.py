"""One step of a user's optimizer, which runs whole inside an activity."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from ratchet._values import CanonicalMapping
from ratchet.optimizer import CandidateProposal, OptimizerState, RunContext, StopDecision, TrialFacts
from workflows.model.trial import Split

LARGEST_STATE: Final = 64 * 1024
"""Bytes of JSON that an optimizer may remember. It travels with every step, and every step is kept in the run's history."""

LARGEST_PROPOSALS: Final = 1024 * 1024
"""Bytes of JSON that one step may propose: a message of Temporal's takes 2 MB."""


class OwnOptimizer(Payload):
    """A user's optimizer: its class, and what that is made with."""

    name: Literal["python"] = "python"
    ref: str
    options: CanonicalMapping = Field(default_factory=dict)
    examples: int = 20
    """How many evaluated samples of each new trial it is shown."""


def version_key(role: str, ref: str) -> str:
    """Say where the run's versions have which code an optimizer or a stop policy is."""
    return f"{role} {ref}"


class CustomStepInput(Payload):
    """Asks a user's optimizer for the next proposals: first it observes what became of the last ones."""

    run_id: str
    optimizer: OwnOptimizer
    fingerprint: str = ""
    """The code that the run began with."""
    context: RunContext
    state: OptimizerState | None = None
    """None before its first step."""
    observed: tuple[TrialFacts, ...] | None = None
    """What became of its last proposals; None before there were any."""
    max_candidates: int = 1
    search_split: Split = Split.ALL


class CustomStepResult(Payload):
    """What it answered."""

    state: OptimizerState
    """What it remembers once it has observed."""
    decision: StopDecision
    proposals: tuple[CandidateProposal, ...] = ()
    """None when it decided to stop."""


class Kept(Payload):
    """What the run keeps of a user's optimizer between two steps."""

    state: OptimizerState
    observed: tuple[TrialFacts, ...] = ()
    """What it will observe at its next step."""

    def as_data(self) -> dict[str, JsonValue]:
        return self.model_dump(mode="json", exclude_defaults=True)
