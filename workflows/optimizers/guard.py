"""The border between the run and an algorithm's code, which may have bugs."""

from __future__ import annotations

from temporalio.exceptions import FailureError

from ratchet.optimizer import StopReason
from workflows.model.failures import shorten
from workflows.optimizers.frame import ProposalFailed
from workflows.run.end.ended import RunEnded


class OptimizerGuard:
    """Turns a bug in an optimizer into the run's end with a reason, instead of a workflow task that is retried for ever."""

    def __init__(self, optimizer: str, method: str) -> None:
        self._where = f"optimizer {optimizer} failed in {method}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ProposalFailed | FailureError | RunEnded):
            told = shorten(f"{self._where}: {type(error).__name__}: {error}")
            raise RunEnded(StopReason.EXECUTION_FAILURE, told, "failed") from error
