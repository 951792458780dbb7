"""A spec as somebody writes it, checked as `ratchet check` does: what is wrong, with its line; what its run would do and cost.

Nothing is started and nothing stored. Only what the operator of this server allows is read; what only the workers may read is
named in `unseen`, with a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar

from pydantic import ConfigDict

from activities.datasets import Source
from activities.datasets.run_dataset import lacking_samples
from activities.preparing.factor_files import WithFactorFiles
from activities.preparing.prompt_snapshot import UnusablePrompt
from activities.preparing.request_check import Busy, TakesTooLong, checked_apart
from clients.checks.costs.estimate import Estimate, estimate
from clients.checks.costs.team_shortage import team_warning
from clients.checks.findings import Checked, Finding, check_content, with_size
from clients.checks.plan_summary import ASK_ABOVE, plan_of, question_before
from clients.checks.plugin_inspection import Inspection
from clients.checks.plugin_process import PluginUse
from clients.checks.prompt_source import SeenPrompt
from clients.checks.spec_file import SpecFile, SpecFileError, read_spec_text
from clients.http.backend import Backend
from clients.http.errors import Refused
from clients.http.spec_contents import allowed_source, factor_files_of, may_read, prompt_of, stored_dataset
from clients.runs.identity import run_id_of
from ratchet._formats.canonical import NotCanonical
from ratchet._frozen import Payload
from store.write.datasets import Datasets
from workflows.model.failures import with_remark
from workflows.model.spec.request import OptimizationRequest

LARGEST_SPEC: Final = 1_000_000
"""Characters; samples beyond that belong into a dataset."""
MOST_FINDINGS: Final = 100
NO_FILES: Final = "this server reads no files (RATCHET_DATA_DIR); the workers may"
LONGEST_SECONDS: Final = 120.0
"""For all of a check, the import of plug-ins and endpoints that do not answer included."""

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


class WrittenSpec(Payload):
    """A spec as somebody writes it."""

    model_config = ConfigDict(frozen=True, strict=True)

    text: str
    """YAML or JSON, up to a million characters."""
    endpoints: bool = False
    """Whether endpoints are asked if they answer and know the models, which may take seconds."""


class SpecFinding(Payload):
    """One thing that is wrong, or that a person should know."""

    field: str | None
    line: int | None
    """From 1; missing where it belongs to no line."""
    message: str
    severity: Literal["error", "warning"]


class PlanLine(Payload):
    """One line of what a run will do."""

    name: str
    text: str


class CheckedSpec(Payload):
    """What a check found."""

    ok: bool
    """Whether the spec can be run; there may be warnings all the same."""
    findings: tuple[SpecFinding, ...]
    plan: tuple[PlanLine, ...] = ()
    """What the run will do, as `ratchet check` tells it; nothing where something is wrong."""
    estimate: Estimate | None = None
    question: str | None = None
    """What whoever starts it has to agree to, because it may cost more than nobody minds."""
    run_id: str | None = None
    """The run that it would be."""
    ran_before: str | None = None
    """How that run stands, if there is one: started again it is named, and not paid again."""
    dataset_id: str | None = None
    """Of the samples that it leads to now; null where only the workers know."""
    unseen: tuple[str, ...] = ()
    """Fields that name what only the workers may read."""
    spec: dict[str, Any] | None = None
    """The spec as it is started, for POST /v1/private/optimizations; nothing where something is wrong."""


@dataclass
class ServersSurroundings:
    """What the operator of this server lets it read."""

    backend: Backend
    team: str
    foreign: list[str] = field(default_factory=list)
    """What is another team's, told as if it were not there."""
    unseen: dict[str, str] = field(default_factory=dict)
    """Why, by field."""

    async def apart(self, check: Callable[_Given, _Found], *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        return await checked_apart(check, *args, **kwargs)

    async def factor_files(self, request: OptimizationRequest) -> WithFactorFiles:
        taken, unseen = await factor_files_of(request)
        self.unseen |= dict.fromkeys(unseen, NO_FILES)
        return taken

    async def prompt(self, request: OptimizationRequest) -> SeenPrompt:
        self.foreign += await self.backend.reader.teams.foreign_parts(self.team, request)
        if self.foreign:
            return SeenPrompt(request, request)
        try:
            known, unseen = await prompt_of(self.backend.servers, request)
        except UnusablePrompt as error:
            return SeenPrompt(request, request, str(error))
        self.unseen |= dict.fromkeys(unseen, NO_FILES)
        named = request.prompt is None or request.prompt.name is not None
        return SeenPrompt(request if named else known, known)

    def source(self, request: OptimizationRequest) -> Source | None:
        given = request.dataset
        if given.is_read_from_files:
            unseen = [field for field, path in given.files.items() if not may_read(path)]
            self.unseen |= dict.fromkeys(
                unseen, "this server may not read it; the workers may. A stored dataset (name) it knows"
            )
            if unseen:
                return None
        return allowed_source(given)

    async def plugins(self, uses: Sequence[PluginUse]) -> Inspection:
        """Code that cannot be imported here may be importable where the workers are."""
        found = await self.backend.specs.inspected(uses)
        if not found.problems:
            return found
        self.unseen |= {
            place: with_remark(problem, " (on this server; the workers may have it)")
            for place, problem in found.problems.items()
        }
        return Inspection({}, {}, {})


async def check_written(backend: Backend, written: WrittenSpec, team: str) -> CheckedSpec:
    """Check a spec for a team."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            return await _checked(backend, written, team)
    except Busy as busy:
        raise Refused(503, str(busy), retry_after=1) from None
    except (TakesTooLong, TimeoutError):
        raise Refused(422, "the spec took too long to check; make it smaller", "text") from None


async def checked_request(backend: Backend, written: WrittenSpec, team: str) -> OptimizationRequest:
    """What is to be started of a spec; what is wrong with it is refused, with its line."""
    found = await check_written(backend, written, team)
    for finding in found.findings:
        if finding.severity == "error":
            where = "" if finding.line is None else f"line {finding.line}: "
            raise Refused(422, f"{where}{finding.message}", finding.field or "text")
    return await asyncio.to_thread(OptimizationRequest.model_validate, found.spec)


async def _checked(backend: Backend, written: WrittenSpec, team: str) -> CheckedSpec:
    if len(written.text) > LARGEST_SPEC:
        told = f"is {len(written.text):,} characters long, a spec at most {LARGEST_SPEC:,}; put samples into a stored dataset"
        return _told([Finding(told)])
    name = "spec.json" if written.text.lstrip().startswith("{") else "spec.yaml"
    try:
        file = await checked_apart(read_spec_text, written.text, Path(name))
    except SpecFileError as error:
        return _told([Finding(str(error), error.line)])
    except RecursionError:
        return _told([Finding("is nested too deeply; flatten it")])
    around = ServersSurroundings(backend, team)
    checked = await check_content(file, own_worker=False, endpoints=written.endpoints, whole_engine=False, surroundings=around)
    findings = [*checked.findings]
    findings += [Finding(f"{place}: {why}", file.line_of(f"{place}: "), "warning") for place, why in around.unseen.items()]
    findings += [Finding(problem, file.line_of(problem)) for problem in around.foreign]
    known = replace(checked, findings=findings)
    if known.errors or known.request is None:
        return _told(findings)
    return await _with_plan(backend, file, known, tuple(around.unseen), team)


async def _with_plan(backend: Backend, file: SpecFile, checked: Checked, unseen: tuple[str, ...], team: str) -> CheckedSpec:
    request, known = checked.request, checked.known
    assert request is not None and known is not None
    dataset_id: str | None = None if checked.dataset is None else checked.dataset.dataset_id
    if request.dataset.ref is not None:
        dataset_id = request.dataset.ref
    elif dataset_id is None and not request.dataset.files:
        try:
            dataset_id = await stored_dataset(backend.servers, request, team)
        except Refused as error:
            return _told([*checked.findings, Finding(str(error), file.line_of(str(error)))])
        datasets = Datasets(backend.database)
        count, given = await datasets.size(dataset_id) or 0, await datasets.given_sizes(dataset_id)
        checked = with_size(checked, dataset_id, count, given)
        lacking = await lacking_samples(backend.reader.dataset_items, dataset_id, known)
        if lacking:
            return _told([*checked.findings, *(Finding(problem, file.line_of(problem)) for problem in lacking)])
    run_id = ran_before = None
    if dataset_id is not None:
        try:
            parts = known, dataset_id, checked.plugins.fingerprints, checked.plugins.sources
            run_id = await asyncio.to_thread(run_id_of, *parts, team)
        except NotCanonical as error:
            return _told([*checked.findings, Finding(f"the spec has no canonical form: {error}")])
        row = await backend.reader.runs.progress(run_id)
        ran_before = None if row is None else row.status
    rows, _ = await asyncio.to_thread(plan_of, checked, run_id)
    costs = await asyncio.to_thread(estimate, checked)
    short = await team_warning(backend.reader.team_months, team, costs)
    told = _told([*checked.findings, *([] if short is None else [Finding(short, severity="warning")])])
    return told.model_copy(
        update={
            "plan": tuple(PlanLine(name=name, text=text) for name, text in rows.items()),
            "estimate": costs,
            "question": question_before(costs, ASK_ABOVE),
            "run_id": run_id,
            "ran_before": ran_before,
            "dataset_id": None if request.dataset.ref is not None else dataset_id,
            "unseen": unseen,
            "spec": request.model_dump(mode="json", by_alias=True),
        }
    )


def _told(findings: Sequence[Finding]) -> CheckedSpec:
    errors = [finding for finding in findings if finding.severity == "error"]
    first = [*errors, *(finding for finding in findings if finding.severity == "warning")][:MOST_FINDINGS]
    return CheckedSpec(ok=not errors, findings=tuple(SpecFinding(**finding.as_json()) for finding in first))
