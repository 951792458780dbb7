"""The spec of a run as people read it: in YAML, and as its author wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clients.runs.identity import is_plugin_queue
from ratchet._formats.yaml_text import yaml_text
from ratchet._frozen import Payload
from workflows.model.spec.request import OptimizationRequest


class SpecText(Payload):
    """The spec of a run, to be changed and started again."""

    text: str
    """In YAML, without what is as it is by default."""
    written: str | None = None
    """As its author wrote it, with its comments; null where it was no file, or where Temporal knows the run no more."""
    dataset_id: str | None = None
    """Of the samples that the run had; null where it has not begun."""


def spec_text(stored: Mapping[str, Any], task_queue: str) -> str:
    """Write a stored spec in YAML, without what is as it is by default, and without the queue of workers of its very code.

    Raises ValueError where it is none that this version knows.
    """
    request = OptimizationRequest.model_validate(stored)
    queue = request.execution.evaluation_task_queue
    if queue is not None and is_plugin_queue(queue, task_queue):
        execution = request.execution.model_copy(update={"evaluation_task_queue": None})
        request = request.model_copy(update={"execution": execution})
    request = request.model_copy(update={"retry_of": None})
    short = request.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    try:
        is_same = OptimizationRequest.model_validate(short) == request
    except ValueError:
        is_same = False
    return yaml_text(short if is_same else request.model_dump(mode="json", by_alias=True, exclude_none=True))
