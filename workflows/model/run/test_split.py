"""Samples that are held back: who asks to read them, and whether that is allowed."""

from __future__ import annotations

from ratchet._frozen import Payload


class OpenTestSplit(Payload):
    """Asks to measure configurations on the run's test split."""

    run_id: str
    config_hashes: tuple[str, ...]
    """The baseline's, and the winner's."""


class OpenedTestSplit(Payload):
    """The answer. What is opened once stays open for the same configurations."""

    refused: str | None = None
    """Why it stays closed."""
    readers: int = 0
    """How many other runs were confirmed on the same samples before."""
    searched: int = 0
    """How many of the samples other runs have searched on."""
