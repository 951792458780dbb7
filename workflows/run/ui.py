"""What a run shows of itself unasked: current details in the UI, search attributes, log lines."""

from __future__ import annotations

from temporalio import workflow

from workflows.model.run.rounds import RunStatus
from workflows.run import queries
from workflows.run.state import RunState
from workflows.search_attributes import attributes_of

EAGER_ROUNDS = 20
ROUNDS_BETWEEN_ATTRIBUTES = 10
"""Each change of the search attributes is an event. They follow every new best in the first rounds, later every tenth round."""


class Showing:
    """Says where the run is."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._attributed: tuple[object, ...] = ()

    def show(self, status: RunStatus, phase: str) -> None:
        """To queries, in the UI, and to the search attributes when it matters."""
        state = self._state
        state.status, state.phase = status, phase
        best_score = state.best.score if state.best else None
        workflow.logger.info(phase, extra={"facts": {"status": status, "round": state.round, "best_score": best_score}})
        workflow.set_current_details(queries.details(state, workflow.now()))
        best = state.best.candidate_id if state.best and state.round <= EAGER_ROUNDS else None
        matters = (status, best, state.round // ROUNDS_BETWEEN_ATTRIBUTES)
        if state.prepared is not None and state.prepared.search_attributes and matters != self._attributed:
            self._attributed = matters
            workflow.upsert_search_attributes(attributes_of(state))
