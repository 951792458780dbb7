"""A run's id is derived from what it would do, so that the same spec finds the same run again.

`{name}-{first 10 hex}` of the hash over the spec (its defaults left out), the content of its dataset and the code of its
plug-ins. Another run of the same spec gets `-2`, `-3`, … behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from clients.settings import client_settings
from ratchet._formats.canonical import content_hash
from store.read.access.teams import DEFAULT_TEAM
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.prompt_factors import is_read

if TYPE_CHECKING:
    from clients.checks.findings import Checked

LENGTH_OF_HASH = 10
LENGTH_OF_CODE_HASH = 12


def run_id_of(
    request: OptimizationRequest,
    dataset_id: str,
    fingerprints: Mapping[str, str],
    sources: Mapping[str, str],
    team: str = DEFAULT_TEAM,
) -> str:
    """The id of the first run of this spec, whoever asks for it: the command line, HTTP, or Temporal's own clients.

    `dataset_id` is the hash of its samples, or the plug-in that gives them: what slices the report shows changes nothing.
    `fingerprints` are those of its plug-ins, `sources` the hashes of the user's own files that importing them loads. Where
    the spec states every plug-in's version, the versions speak for the code. A prompt counts as it is, wherever it was read.
    Each team has runs of its own of the same spec.
    """
    content = request.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"dataset"})
    execution = content.pop("execution", {})
    for name in ("evaluation_task_queue", "first_look"):  # the first follows from the code, the other from who asks
        execution.pop(name, None)
    content |= {"execution": execution} if execution else {}
    if request.prompt is not None and request.prompt.snapshot is not None:
        snapshot = request.prompt.snapshot
        content["prompt"] = {"template": snapshot.template.hash, "overlay": snapshot.overlay_hash}
    splits, group_by = request.dataset.splits, request.dataset.group_by
    drawn = None
    if splits is not None:
        unsaid = () if splits.nothing_held_back else ("nothing_held_back",)
        drawn = splits.model_dump(mode="json", exclude_none=True, exclude={*unsaid})
    content["dataset"] = {"id": dataset_id, "splits": drawn}
    if group_by is not None:
        content["dataset"]["group_by"] = group_by
    versioned = all(version is not None for version in request.plugin_references.values())
    code = {"plugins": dict(fingerprints), "sources": {} if versioned else dict(sources)}
    whose = {} if team == DEFAULT_TEAM else {"team": team}
    return f"{request.name}-{content_hash({'spec': content, 'code': code, **whose})[:LENGTH_OF_HASH]}"


def foreseen_run_id(checked: Checked) -> str | None:
    """The id that a checked spec's run would get; None where only the servers know what the spec refers to."""
    known, data = checked.known, checked.dataset
    if known is None or checked.errors or not is_read(known):
        return None
    dataset_id = known.dataset.ref or known.dataset.id or (data.dataset_id if data is not None else None)
    if dataset_id is None:
        return None
    return run_id_of(known, dataset_id, checked.plugins.fingerprints, checked.plugins.sources, client_settings().team)


def further_ids(first: str) -> Iterator[str]:
    """The first id, then `-2`, `-3`, … behind it."""
    yield first
    number = 2
    while True:
        yield f"{first}-{number}"
        number += 1


def without_number(run_id: str) -> str:
    """The id of the first run of the same spec."""
    return re.sub(rf"(-[0-9a-f]{{{LENGTH_OF_HASH}}})-\d+$", r"\1", run_id)


def plugin_task_queue(task_queue: str, code_hash: str) -> str:
    """Where a worker with exactly this code serves, so that one with older code never answers."""
    return f"{task_queue}-evaluation-{code_hash[:LENGTH_OF_CODE_HASH]}"


def is_plugin_queue(queue: str, task_queue: str) -> bool:
    """Whether a queue is named like those of workers with exactly one code."""
    return re.fullmatch(rf"{re.escape(task_queue)}-evaluation-[0-9a-f]{{{LENGTH_OF_CODE_HASH}}}", queue) is not None


def by_dataset_id(request: OptimizationRequest, dataset_id: str) -> OptimizationRequest:
    """The request with its dataset named by content, as workers far away need it."""
    return request.model_copy(update={"dataset": request.dataset.stored_as(dataset_id)})
