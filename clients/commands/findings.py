"""Everything that can be wrong with a spec before money is spent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pydantic

from activities.datasets import DatasetError, Ingested, check_items, draw_splits, read_jsonl
from clients.commands.endpoints import check_endpoints
from clients.commands.inspecting import Inspection, inspect_plugins, plugin_uses
from clients.spec_files import SpecFile, SpecFileError, read_spec_file
from workflows.model.dataset import Item
from workflows.model.explanation import explain
from workflows.model.request import OptimizationRequest
from workflows.model.target import ChatTarget
from workflows.model.trial import Split
from workflows.rules.placeholders import placeholders
from workflows.rules.spec_check import check_request


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or that a person should know."""

    message: str
    line: int | None = None
    severity: Literal["error", "warning"] = "error"

    def told(self, path: Path) -> str:
        """As compilers write it, so that editors jump to the place."""
        place = f"{path}:{self.line}" if self.line is not None else str(path)
        return f"{place}: {'warning: ' if self.severity == 'warning' else ''}{self.message}"

    def as_json(self) -> dict[str, Any]:
        where, separator, _ = self.message.partition(": ")
        is_field = bool(separator) and " " not in where
        return {"field": where if is_field else None, "line": self.line, "message": self.message, "severity": self.severity}


@dataclass(frozen=True)
class Checked:
    """A spec with all that was found out about it."""

    path: Path
    findings: list[Finding] = field(default_factory=list)
    request: OptimizationRequest | None = None
    dataset: Ingested | None = None
    splits: dict[str, int] = field(default_factory=dict)
    plugins: Inspection = field(default_factory=lambda: Inspection({}, {}, {}))

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "warning"]

    @property
    def dataset_file(self) -> Path | None:
        """The local file that the spec names, relative to the spec."""
        return dataset_file(self.path, self.request) if self.request is not None else None


def dataset_file(spec: Path, request: OptimizationRequest) -> Path | None:
    return spec.parent / request.dataset.path if request.dataset.path is not None else None


async def check_spec(path: Path, *, own_worker: bool = True, endpoints: bool = True) -> Checked:
    """Check a spec file as far as it goes: what is wrong earlier hides what comes later only where it must.

    `own_worker` says that workers get this process's environment; otherwise a missing key here is only a warning.
    """
    try:
        file = await asyncio.to_thread(read_spec_file, path)
    except SpecFileError as error:
        return Checked(path, [Finding(str(error), error.line)])
    try:
        request = OptimizationRequest.model_validate(file.content)
    except pydantic.ValidationError as error:
        return Checked(path, _located(file, explain(error)))
    except RecursionError:
        return Checked(path, [Finding("is nested too deeply; flatten it")])
    findings = _located(file, check_request(request))
    dataset, data_findings = await asyncio.to_thread(_check_dataset, path, request)
    plugins = await inspect_plugins(plugin_uses(request), path.parent)
    told = [f"{where}: {problem}" for where, problem in plugins.problems.items()]
    findings += _located(file, [*data_findings, *told])
    if endpoints:
        for problem in await check_endpoints(request):
            severity: Literal["error", "warning"] = "error" if own_worker or not problem.local else "warning"
            findings.append(Finding(problem.message, file.line_of(problem.message), severity))
    return Checked(path, findings, request, dataset, _split_sizes(request, dataset), plugins)


def _located(file: SpecFile, messages: Iterable[str]) -> list[Finding]:
    return [Finding(message, file.line_of(message)) for message in messages]


def _check_dataset(spec: Path, request: OptimizationRequest) -> tuple[Ingested | None, list[str]]:
    """The dataset's size and content hash, and what is wrong with it. A dataset given by id is in the store already."""
    given = request.dataset
    if given.id is not None:
        return None, []
    file = dataset_file(spec, request)
    try:
        if file is None:
            return check_items(given.items or []), []
        if not file.is_file():
            return None, [f"dataset.path: there is no file {str(file)!r}; the path is relative to the spec"]
        found = check_items(file)
        return found, _missing_inputs(request, file)
    except DatasetError as error:
        where = "dataset.items" if file is None else "dataset.path"
        told = str(error).removeprefix("items") if file is None and str(error).startswith("items[") else f": {error}"
        return None, [f"{where}{told}"]


def _missing_inputs(request: OptimizationRequest, file: Path) -> list[str]:
    """The first sample of a file that lacks what a message of the target refers to."""
    if not isinstance(request.target, ChatTarget):
        return []
    texts = [message.content for message in request.target.messages]
    texts += [str(factor.value) for factor in request.configuration.values() if isinstance(factor.value, str)]
    wanted = sorted({name[6:] for text in texts for name in placeholders(text) if name.startswith("input.")})
    for where, item in read_jsonl(file):
        for name in wanted:
            if not _has(item, name):
                return [f"dataset.path: {where}: input has no {name!r}, which a message of the target needs"]
    return []


def _has(item: Item, name: str) -> bool:
    return isinstance(item.input, dict) and name.split(".")[0] in item.input


def _split_sizes(request: OptimizationRequest, dataset: Ingested | None) -> dict[str, int]:
    if dataset is None:
        return {}
    drawn = draw_splits([str(number) for number in range(dataset.count)], request.dataset.splits, request.seed)
    return {split.value: len(samples) for split, samples in drawn.items()}


def searched_samples(checked: Checked) -> int:
    """How many samples a trial is scored on; 0 when that is not known here."""
    for split in (Split.VALIDATION, Split.TRAIN, Split.ALL):
        size = checked.splits.get(split.value, 0)
        if size and checked.request is not None:
            return min(size, checked.request.samples_per_trial or size)
    return 0
