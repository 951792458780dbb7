"""What Temporal is told of a run, so that its tasks get their share of workers that are busy."""

from __future__ import annotations

from typing import Final

from temporalio.common import Priority

from ratchet._formats.canonical import content_hash

HIGHEST: Final = 5
"""The priority of a spec that goes first. For Temporal that is 1, and 5 goes last; 3 is the middle for both."""

LONGEST_KEY: Final = 64
"""Bytes that Temporal takes."""


def share_of(run_id: str, priority: int) -> Priority:
    """Rank a run's tasks by its priority; those of the same rank take turns by run.

    Trials and activities inherit it. Turns need a server whose fairness is switched on; elsewhere tasks of one rank are served
    in the order in which they came.
    """
    return Priority(priority_key=HIGHEST + 1 - priority, fairness_key=_sharer(run_id))


def _sharer(run_id: str) -> str:
    """Name who takes turns with others: the run itself."""
    return run_id if len(run_id.encode()) <= LONGEST_KEY else content_hash(run_id)[:LONGEST_KEY]
