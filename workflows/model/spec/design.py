"""How much is measured of every configuration."""

from __future__ import annotations

from ratchet._frozen import Payload


class Design(Payload):
    """Samples and replicates of a run's trials."""

    samples: int
    """Of a trial, in the order of the suite."""
    replicates: int = 1
    """How often each sample is answered."""
    baseline_replicates: int = 1
    """How often by the baseline, whose noise is part of every comparison."""
