"""Options of `reflect`: texts rewritten by reflection, and lines that are worth something carried from text to text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet._frozen import SpecPart
from workflows.model.spec.proposers import ModelProposer, PythonProposer


class ReflectOptimizer(SpecPart):
    """Rewrites texts by reflection. Failures of the newest candidates are shown to a proposer, which rewrites what looks best.
    The result is measured on a few samples. Every answer to every sample counts as evidence of what each line of the texts is
    worth, and lines that help are carried over from one text to another. Only a leader is measured on all samples. A round is a
    number of such steps and the full measurement that ends it."""

    name: Literal["reflect"]
    proposer: Annotated[ModelProposer | PythonProposer, Field(discriminator="kind")]
    """Who rewrites. A model rewrites texts; a plug-in may change any factor."""
    factors: list[str] | None = None
    """The treatment. Default: every text that may change, or with a Python proposer every factor that may."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 4
    """How many proposals a step rewrites and measures side by side."""
    minibatch: Annotated[int, Field(ge=1, le=1_000)] = 10
    """On how many samples a proposal is measured first."""
    components: Literal["all", "round_robin"] = "all"
    """Whether a rewriting may change all texts at once, or one after the other."""
    steps_per_round: Annotated[int, Field(ge=1, le=100)] = 8
    """So many steps and the leader is measured in full."""
    brevity: Annotated[float, Field(ge=0)] = 0.0
    """How much of the score a line must be worth to be in the leader. Default: anything above 0. Of equal scores the one with
    the shorter texts is kept."""

    @property
    def shorter_wins_ties(self) -> bool:
        """Equal scores are decided by length."""
        return True

    @property
    def smallest_part(self) -> int:
        """Going on is worth while as long as this many samples can be paid for."""
        return self.minibatch
