"""Options of `gepa`, the algorithm as it was published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from ratchet._frozen import SpecPart
from workflows.model.spec.proposers import ModelProposer, PythonProposer

NO_MODE = "gepa is the published algorithm now; use `optimizer: reflect` for the other one, and leave mode out"
"""For specs of the time when both were called `gepa`."""


class GepaOptimizer(SpecPart):
    """The published GEPA. A parent is drawn by how many samples it leads on (Pareto fronts by sample). A proposer reads what
    failed on a minibatch and rewrites a text. The child is measured on the same samples, and on all of them only where it did
    strictly better."""

    name: Literal["gepa"]
    proposer: Annotated[ModelProposer | PythonProposer, Field(discriminator="kind")]
    """Who rewrites. A model rewrites texts; a plug-in may change any factor."""
    factors: list[str] | None = None
    """The treatment. Default: every text that may change, or with a Python proposer every factor that may."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 1
    """How many parents are drawn, rewritten and measured side by side."""
    minibatch: Annotated[int, Field(ge=1, le=1_000)] = 3
    """On how many samples a child must do better than its parent, before all samples are paid for."""
    components: Literal["all", "round_robin"] = "round_robin"
    """Whether a rewriting may change all texts at once, or one after the other."""
    merges: Annotated[int, Field(ge=0, le=100)] = 0
    """How many merges of two candidates that descend from the same one may be let in; 5 is usual. Only configurations of
    several texts can be merged."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_mode(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "mode" in value:
            problem = InitErrorDetails(type=PydanticCustomError("value_error", NO_MODE), loc=("mode",), input=value)
            raise ValidationError.from_exception_data(cls.__name__, [problem])
        return value

    @property
    def shorter_wins_ties(self) -> bool:
        """Equal scores are decided by length."""
        return True

    @property
    def smallest_part(self) -> int:
        """Going on is worth while as long as this many samples can be paid for."""
        return self.minibatch
