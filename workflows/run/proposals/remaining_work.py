"""What a run's search may still do, by its books."""

from __future__ import annotations

from workflows.optimizers.frame import Prospects
from workflows.rules.decisions.budget import calls_left, trials_left
from workflows.run.state import RunState


def prospects_of(state: RunState) -> Prospects:
    """Samples, and what the budgets still cover beside the confirmation."""
    extents, budget = state.extents, (state.limits.budget, state.spending.counted, state.needs)
    return Prospects(
        search_samples=extents.search,
        train_samples=extents.train,
        replicates=state.design.replicates,
        calls_left=calls_left(*budget),
        trials_left=trials_left(*budget),
    )
