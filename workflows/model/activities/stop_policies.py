"""Asks a stop policy of the user's, which runs in an activity."""

from __future__ import annotations

from ratchet._frozen import Payload
from ratchet.optimizer import StopFacts


class PolicyInput(Payload):
    """What is asked after a round; the trials are read from the store."""

    run_id: str
    ref: str
    fingerprint: str = ""
    """The code that the run began with."""
    facts: StopFacts


class PolicyAnswer(Payload):
    """What it says."""

    words: str | None = None
    """Why the run ends; None where it goes on."""
