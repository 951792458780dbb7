"""A scorer that is an activity of the user's."""

from __future__ import annotations

from typing import Literal

from workflows.model.spec.extensions.called_activity import CalledActivity
from workflows.model.spec.extensions.scorer_options import OutputScorer


class ActivityScorer(CalledActivity, OutputScorer):
    """An activity of your own, on any task queue, in any language. `examples/temporal` has the contract.

    Each call is a small workflow of its own. A worker that is away is no score of 0: the answer is kept, and is unscored.
    """

    graded_by = ".own_activity:own_activity"
    names_its_scores = True
    asks_somebody = True

    kind: Literal["activity"]

    @property
    def called_activity(self) -> CalledActivity:
        return self
