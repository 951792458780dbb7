"""What trials are compared with, and what a round decides about each of its candidates."""

from __future__ import annotations

from pydantic import Field

from ratchet._frozen import Payload
from workflows.model.spec.judgement import Verdict


class Reference(Payload):
    """A finished trial of the same run and split that another one is compared with; its answers are in the store."""

    candidate_id: str
    config_hash: str
    first_replicate: int = 0
    replicates: int = 1
    """How often it answered each sample."""


class Decision(Payload):
    """What became of one candidate, and why."""

    candidate_id: str
    kept: bool = False
    """It became the best of the run."""
    reference: str | None = None
    """The candidate that it was judged against."""
    verdict: Verdict | None = None
    """None for a trial that did not complete."""
    accepted: bool | None = None
    """Whether what the spec's rule asks for was shown, must-pass samples and constraints included."""
    adjusted_p: float | None = None
    """Corrected for the number of candidates that were judged together."""
    family: int = 0
    """How many these were."""
    objectives: dict[str, Verdict] = Field(default_factory=dict)
    """Of each further objective."""
    explanation: str = ""
    """One sentence with the numbers."""


class FrontMember(Payload):
    """A candidate that no other one beats in every objective."""

    candidate_id: str
    gains: dict[str, float]
    """Over the baseline, by objective; positive is better, whatever the direction."""
    verdicts: dict[str, Verdict] = Field(default_factory=dict)
    """Against the baseline, by objective."""
