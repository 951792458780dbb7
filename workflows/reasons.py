"""Why something failed, without the wrappings."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from workflows.model.failures import shorten


def reason_of(error: BaseException) -> str:
    """What an activity or a child said when it failed. Temporal wraps that once for every border it crosses."""
    while not isinstance(error, ApplicationError) and (cause := getattr(error, "cause", None)) is not None:
        error = cause
    return shorten(error.message if isinstance(error, ApplicationError) else str(error))
