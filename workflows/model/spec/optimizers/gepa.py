"""Options of `gepa`: texts rewritten by reflection on what went wrong, recombined, and raced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ratchet._frozen import SpecPart
from workflows.model.spec.proposers import ModelProposer, PythonProposer

AS_PUBLISHED = {"candidates_per_round": 1, "minibatch": 3, "components": "round_robin"}
"""What the exact mode takes for granted."""


class GepaOptimizer(SpecPart):
    """Reflective evolution: failures of the newest candidates are shown to a proposer, which rewrites what looks best; the
    result is measured on a few samples, and only a leader is measured on all. A round is a number of such steps and the full
    measurement that ends it."""

    name: Literal["gepa"]
    proposer: Annotated[ModelProposer | PythonProposer, Field(discriminator="kind")]
    """Who rewrites. A model rewrites texts; a plug-in may change any factor."""
    factors: list[str] | None = None
    """The treatment. Default: every text that may change, or with a Python proposer every factor that may."""
    mode: Literal["improved", "exact"] = "improved"
    """`improved`: every answer to every sample counts as evidence of what each line of the texts is worth, and lines that help
    are carried over from one text to another. `exact`: the published algorithm, with Pareto fronts by sample, parents drawn by
    how many fronts they are on, and a strict gate on a minibatch before all samples are paid for."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 4
    """How many proposals a step rewrites and measures side by side. Default: 4; 1 in the exact mode."""
    minibatch: Annotated[int, Field(ge=1, le=1_000)] = 10
    """On how many samples a proposal is measured first. Default: 10; 3 in the exact mode."""
    components: Literal["all", "round_robin"] = "all"
    """Whether a rewriting may change all texts at once or one after the other. Default: all; round_robin in the exact mode."""
    steps_per_round: Annotated[int, Field(ge=1, le=100)] = 8
    """So many steps and the leader is measured in full, in the improved mode."""
    brevity: Annotated[float, Field(ge=0)] = 0.0
    """How much of the score a line must be worth to be in the leader, in the improved mode. Default: anything above 0. Of equal
    scores the one with the shorter texts is kept."""
    merges: Annotated[int, Field(ge=0, le=100)] = 0
    """How many merges of two candidates that descend from the same one may be let in, in the exact mode; 5 is usual. Only
    configurations of several texts can be merged. The improved mode recombines lines in every step."""

    @model_validator(mode="before")
    @classmethod
    def _as_its_mode_takes_for_granted(cls, value: Any) -> Any:
        published = isinstance(value, Mapping) and value.get("mode") == "exact"
        return {**AS_PUBLISHED, **value} if published else value

    @property
    def shorter_wins_ties(self) -> bool:
        """Equal scores are decided by length."""
        return True

    @property
    def smallest_part(self) -> int:
        """Going on is worth while as long as this many samples can be paid for."""
        return self.minibatch
