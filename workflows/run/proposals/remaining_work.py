"""What a run's search may still do, by its books."""

from __future__ import annotations

from workflows.optimizers.frame import Prospects
from workflows.rules.decisions.budget import calls_left, trials_left
from workflows.run.state import RunState


def prospects_of(state: RunState) -> Prospects:
    """Samples, and what the budgets still cover beside the confirmation."""
    extents, spending = state.extents, state.spending
    books = (state.limits.budget, spending.spend, state.needs, spending.lost)
    return Prospects(
        search_samples=extents.search,
        train_samples=extents.train,
        replicates=state.design.replicates,
        calls_left=calls_left(*books),
        trials_left=trials_left(*books),
    )
