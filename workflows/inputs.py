"""What workflows are started with. Temporal calls them with whatever was sent; a wrong call would be retried for ever."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from workflows.model.failures import INVALID_REQUEST

LONGEST_RUN_ID = 500
"""Bytes. Ids of trials begin with it, and Temporal takes 1,000."""


def refuse_other_than_one(inputs: tuple[object, ...], wanted: str) -> None:
    """A workflow takes exactly one input. One that was decoded has its type already."""
    if not inputs:
        raise _invalid(f"the input is missing; start the workflow with one {wanted} as a JSON object")
    if len(inputs) > 1:
        raise _invalid(f"the workflow was started with {len(inputs)} inputs; give exactly one, one {wanted} as a JSON object")


def refuse_unusable_id(run_id: str) -> None:
    """A run's id names rows and child workflows."""
    if len(run_id.encode()) > LONGEST_RUN_ID:
        raise _invalid(f"the workflow id has {len(run_id.encode())} bytes; at most {LONGEST_RUN_ID} leave room for its trials'")
    if not run_id.isprintable():
        raise _invalid(f"the workflow id {run_id!r} contains control characters; use an id without them")


def refuse_foreign_state(carried: object, continued: bool) -> None:
    """Only a run that continues as new brings state along."""
    if carried is not None and not continued:
        raise _invalid("carried: is set by Ratchet itself when a long run continues as new; leave it out")


def _invalid(message: str) -> ApplicationError:
    return ApplicationError(message, type=INVALID_REQUEST, non_retryable=True)
