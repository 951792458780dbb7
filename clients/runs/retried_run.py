"""A finished run that is run again for what failed: what command line and HTTP share of preparing it."""

from __future__ import annotations

from dataclasses import dataclass

from clients.checks.plugin_inspection import plugin_uses
from clients.reports.removal_notes import removal_text
from clients.runs.identity import is_plugin_queue, without_number
from clients.runs.lookup import TERMINAL
from store.read.reader import StoreReader
from workflows.model.spec.request import OptimizationRequest


class NotRetried(Exception):
    """Why a run cannot be run again for what failed."""


@dataclass(frozen=True)
class Retried:
    """A finished run, and the spec of the one that takes over its answers."""

    run_id: str
    request: OptimizationRequest
    team: str
    dataset_id: str
    removed: str
    """What a policy has removed of its answers, as a sentence: that is asked, and paid, again."""

    @property
    def first_id(self) -> str:
        """The id of the first run of this spec."""
        return without_number(self.run_id)


async def retried_run(reader: StoreReader, run_id: str) -> Retried:
    """A run that is over, ready to be retried; raises where there is nothing to retry."""
    row = await reader.runs.load(run_id)
    if row is None:
        raise NotRetried(f"there is nothing to retry: {run_id} never began; run its spec first")
    if row.status not in TERMINAL:
        raise NotRetried(f"there is nothing to retry: {run_id} is still open; wait for its end, or `ratchet stop` it")
    request = OptimizationRequest.model_validate(row.spec).model_copy(update={"retry_of": run_id})
    return Retried(run_id, request, await reader.teams.of_run(run_id), row.dataset_id, removal_text(row.removals))


def needs_code(request: OptimizationRequest, task_queue: str) -> bool:
    """Whether a run was served by a worker of its own, which only the code it began with may be."""
    queue = request.execution.evaluation_task_queue
    return bool(plugin_uses(request)) and queue is not None and is_plugin_queue(queue, task_queue)


def told_to_retry_elsewhere(run_id: str) -> str:
    """What to do where the code of a run is not at hand."""
    return f"{run_id} needs its plug-ins; retry it where they are, with `ratchet run SPEC --retry-failed`"


def without_questions(request: OptimizationRequest) -> OptimizationRequest:
    """The spec of a run that asks nobody after its first look: whoever started it has left."""
    if request.execution.first_look != "ask":
        return request
    return request.model_copy(update={"execution": request.execution.model_copy(update={"first_look": "tell"})})
