"""The spec of a run that the store does not have, as text."""

from __future__ import annotations

from typing import Any

from activities.preparing.request_check import Busy, TakesTooLong, checked_apart
from clients.http.accepted_run import accepted_spec
from clients.http.backend import Backend
from clients.http.errors import Refused
from clients.reports.spec_texts import spec_text
from ratchet._formats.yaml_text import yaml_text


async def unstored_spec_text(backend: Backend, run_id: str) -> str:
    """The spec of a run that was refused, or has not begun. What is no spec is shown as it was sent."""
    given = await accepted_spec(backend, run_id)
    try:
        return await checked_apart(_sent_text, given, backend.task_queue)
    except Busy as busy:
        raise Refused(503, str(busy), retry_after=1) from None
    except (RecursionError, TakesTooLong):
        raise Refused(409, f"{run_id} was sent what cannot be shown as a spec", "optimization_id") from None


def _sent_text(given: dict[str, Any], task_queue: str) -> str:
    try:
        return spec_text(given, task_queue)
    except ValueError:
        return yaml_text(given)
