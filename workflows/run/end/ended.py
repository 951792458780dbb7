"""The end of a run, as whoever finds it tells it."""

from __future__ import annotations

from ratchet.optimizer import StopReason
from workflows.model.failures import one_line, split_traceback
from workflows.model.run.rounds import RunStatus
from workflows.model.run.run_result import EndedBy


class RunEnded(Exception):
    """The run is over: raised where that is found out, answered in one place."""

    def __init__(self, reason: StopReason, message: str, status: RunStatus = "completed", *, by: EndedBy | None = None) -> None:
        told, where = split_traceback(message)
        # It may repeat what a plug-in said, and is shown in lists, logs and terminals.
        self.message = "\n".join([one_line(told), where]) if where else one_line(told)
        super().__init__(self.message)
        self.reason = reason
        self.status = status
        self.by = by or _BY.get(reason, "rules")


_BY: dict[StopReason, EndedBy] = {
    StopReason.STOPPED_EARLY: "person",
    StopReason.CANCELLED: "person",
    StopReason.EXECUTION_FAILURE: "failure",
    StopReason.PROPOSAL_FAILURE: "proposer",
}
