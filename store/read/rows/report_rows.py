"""Rows of a whole run: all that a report, an export or a replay of decisions needs."""

from __future__ import annotations

from pydantic import Field

from ratchet._frozen import Payload
from store.read.marks import Mark
from store.read.rows.round_rows import ProposalCost, Rejection, RoundRow
from store.read.rows.run_rows import RunDetail
from store.read.rows.trial_rows import TrialInFull
from workflows.model.spec.release import ReleaseState
from workflows.model.suite import LeftOut
from workflows.model.trial import Split


class DrawnSplit(Payload):
    """The samples that trials of a run were measured on."""

    split: Split
    samples: int
    weights: tuple[float, ...] | None
    """In the order of the suite; None when all weigh alike."""
    same_as: dict[int, int] = Field(default_factory=dict)
    """For samples that count as one with another: where they are, and where the first of their cluster is."""
    left_out: LeftOut | None = None


class RunReport(Payload):
    """Everything a report, an export or a replay of decisions needs."""

    run: RunDetail
    rounds: tuple[RoundRow, ...]
    trials: tuple[TrialInFull, ...]
    rejections: tuple[Rejection, ...]
    splits: tuple[DrawnSplit, ...] = ()
    proposals: tuple[ProposalCost, ...] = ()
    releases: tuple[ReleaseState, ...] = ()
    """What was asked for in its name, the newest first."""
    marks: tuple[Mark, ...] = ()
    """What people said of it; no decision reads that."""
