"""What a run shows of itself unasked: current details in the UI, search attributes, log lines."""

from __future__ import annotations

from temporalio import workflow

from workflows.model.run.rounds import RunStatus
from workflows.run import queries
from workflows.run.state import RunBook
from workflows.search_attributes import attributes_of

EAGER_ROUNDS = 20
ROUNDS_BETWEEN_ATTRIBUTES = 10
"""Each change of the search attributes is an event. They follow every new best in the first rounds, later every tenth round."""


class Showing:
    """Says where the run is."""

    def __init__(self, book: RunBook) -> None:
        self._book = book
        self._attributed: tuple[object, ...] = ()

    def show(self, status: RunStatus, phase: str) -> None:
        """To queries, in the UI, and to the search attributes when it matters."""
        book = self._book
        book.status, book.phase = status, phase
        best_score = book.best.score if book.best else None
        workflow.logger.info(phase, extra={"facts": {"status": status, "round": book.round, "best_score": best_score}})
        workflow.set_current_details(queries.details(book, workflow.now()))
        best = book.best.candidate_id if book.best and book.round <= EAGER_ROUNDS else None
        matters = (status, best, book.round // ROUNDS_BETWEEN_ATTRIBUTES)
        if book.prepared is not None and book.prepared.search_attributes and matters != self._attributed:
            self._attributed = matters
            workflow.upsert_search_attributes(attributes_of(book))
