"""What the workflow of a run counts: its rounds, its verdicts, its end. Nothing is counted while it replays."""

from __future__ import annotations

from typing import Final

from temporalio.common import MetricMeter

from ratchet.optimizer import StopReason
from workflows.metrics import ROUNDS, RUNS_BEGUN, RUNS_ENDED, VERDICTS, Count
from workflows.model.run.rounds import RoundRecord, RunStatus

FAILURES: Final = (
    StopReason.BASELINE_FAILED,
    StopReason.FIRST_LOOK,
    StopReason.PROPOSAL_FAILURE,
    StopReason.SCORING_FAILURE,
    StopReason.EXECUTION_FAILURE,
    StopReason.TOO_MANY_FAILURES,
)
"""Why runs fail."""


class RunMeters:
    """The meters of one run. They are made from the workflow's own meter, which says nothing in a replay."""

    def __init__(self, meter: MetricMeter, optimizer: str) -> None:
        self._optimizer = optimizer
        self._begun = Count(meter, RUNS_BEGUN)
        self._rounds = Count(meter, ROUNDS)
        self._verdicts = Count(meter, VERDICTS)
        self._ended = Count(meter, RUNS_ENDED)

    def run_begun(self) -> None:
        """The run is prepared. That none of its kind has failed yet is shown from here on."""
        self._begun.add(1, self._optimizer)
        self._ended.begin_at_zero(optimizer=(self._optimizer,), status=("failed",), reason=FAILURES)

    def round_decided(self, record: RoundRecord) -> None:
        """A round, or a step of one that goes on, was recorded."""
        if record.open:
            return
        self._rounds.add(1, self._optimizer)
        for decision in record.decisions:
            if decision.verdict is not None:
                self._verdicts.add(1, self._optimizer, decision.verdict)

    def run_ended(self, status: RunStatus, reason: StopReason) -> None:
        """The end of the run is in the store."""
        self._ended.add(1, self._optimizer, status, reason)
