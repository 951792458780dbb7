"""What is cleared away by itself."""

from __future__ import annotations

from datetime import timedelta

from ratchet._frozen import Payload


class CleanupInput(Payload):
    """The input of `CleanupWorkflow`."""

    grace: timedelta = timedelta(days=1)
    """How long a run must be over before what it left is removed."""


class CleanupResult(Payload):
    """What was removed."""

    tags: int = 0
    """Temporary tags of prompts."""
    overlays: int = 0
    """Configurations that nothing in the store refers to."""
    texts: int = 0
    """Runs of which the policy removed the texts of answers."""
    answers: int = 0
    """Runs of which it removed answers and scores."""
    runs: int = 0
    """Runs that it removed with all that was theirs."""
    left: int = 0
    """Removals that the next round goes on with."""
