"""Why something failed, without the wrappings."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError, FailureError

from workflows.model.failures import described, shorten


def reason_of(error: BaseException) -> str:
    """What an activity or a child said when it failed. Temporal wraps that once for every border it crosses."""
    while not isinstance(error, ApplicationError) and (cause := getattr(error, "cause", None)) is not None:
        error = cause
    if isinstance(error, ApplicationError):
        return shorten(error.message)
    return shorten(str(error)) if isinstance(error, FailureError) else described(error)
