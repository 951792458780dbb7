"""Several scorers as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from workflows.model.spec.extensions.scorer_options import Scorer

DEEPEST_COMBINATION = 4
"""How deep scorers may be combined of scorers."""


class CombinedScorer(Scorer):
    """Several scorers as one.

    `all_of` is 1 when every member passes, `any_of` when one does, else 0; `mean_of` is their mean, by weight.
    """

    graded_by = ".combinations:combined"

    kind: Literal["all_of", "any_of", "mean_of"]
    scorers: Annotated[list[Scorer], Field(min_length=1)]
    """The members. Whether a member passes is decided by its own threshold."""

    @model_validator(mode="after")
    def _not_too_deep(self) -> CombinedScorer:
        if self.depth > DEEPEST_COMBINATION:
            raise ValueError(f"scorers: are combined more than {DEEPEST_COMBINATION} deep; use fewer levels")
        return self

    @property
    def depth(self) -> int:
        return 1 + max(member.depth for member in self.scorers)

    @property
    def members(self) -> Sequence[Scorer]:
        return self.scorers
