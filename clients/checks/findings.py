"""Everything that can be wrong with a spec before money is spent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pydantic

from activities.datasets import DatasetError, Ingested, Source, SourceAway, check_items, split_sizes
from activities.datasets.run_dataset import refuse_nothing_to_stratify_by
from activities.endpoints.endpoint_policy import OperatorLists
from activities.preparing.default_prices import NO_PRICES, DefaultPrices, default_prices
from activities.preparing.extras import missing_extras
from activities.preparing.factor_files import FactorFiles
from activities.preparing.placed_models import PlacedModel, batch_refusals, placed_models
from clients.checks.copies import Members
from clients.checks.endpoints import check_endpoints, untaken_files
from clients.checks.installation import INSTALL_ENGINE, lacking_packages
from clients.checks.plugin_inspection import Inspection, each_import_once, plugin_uses
from clients.checks.provider_gaps import FilesInInstructions, files_in_instructions, unsent_parameters
from clients.checks.small_splits import too_small_splits
from clients.checks.spec_file import SpecFile, SpecFileError, read_spec_file
from clients.checks.surroundings import BesideSpec, Surroundings, source_beside
from clients.settings import dataset_settings, operator_settings
from ratchet._files import references_in
from ratchet._text.explanation import explain
from store.write.datasets import SampleRow
from workflows.model.spec.dataset import SPLIT_NAMES, Item, SplitName, Splits
from workflows.model.spec.extensions.named_plugins import is_of_program
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split
from workflows.rules.decisions.budget import needs_of, refuse_baseline
from workflows.rules.releases.target import automatic_without_test
from workflows.rules.scoring.slices import stratum
from workflows.rules.spec.check import check_request
from workflows.rules.spec.default_splits import is_nothing_held_back, splits_of, told_of_confirmation
from workflows.rules.spec.judgement_check import unknown_must_pass
from workflows.rules.spec.sample_needs import SampleNeeds


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
    read: OptimizationRequest | None = None
    """The request with the factors of its stored prompt, where that could be read from here."""
    counting: int | None = None
    """How many of the samples count by themselves, where several count as one."""
    files: FactorFiles = field(default_factory=dict)
    """Those that factors name, and where they were found."""
    default_prices: DefaultPrices = NO_PRICES
    """Of models that the spec gives no price."""
    in_batches: tuple[PlacedModel, ...] = ()
    """Models that are asked in batches, or were if their providers had them."""
    text: str | None = None
    """The spec as its author wrote it, where it is a file."""

    @property
    def batched(self) -> tuple[PlacedModel, ...]:
        """Those whose providers have batches. Where the target's have none, its judges are asked at once with it."""
        there = tuple(one for one in self.in_batches if one.has_batches)
        return there if any(not one.is_judge for one in there) else ()

    @property
    def priced(self) -> OptimizationRequest | None:
        """The same with the price of every model, as far as it is known here."""
        return None if self.known is None else self.default_prices.given_to(self.known)

    @property
    def known(self) -> OptimizationRequest | None:
        """The request as far as it is known here."""
        return self.read or self.request

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "warning"]

    @property
    def source(self) -> Source | None:
        """What the spec's path, paths or items name: files relative to the spec, or objects in S3."""
        if self.request is None or not self.request.dataset.is_read_from_files:
            return None
        return source_beside(self.path, self.request)


async def check_spec(
    path: Path, *, own_worker: bool = True, endpoints: bool = True, whole_engine: bool = True, home: Path | None = None
) -> Checked:
    """Check a spec file as far as it goes: what is wrong earlier hides what comes later only where it must.

    `own_worker` says that workers get this process's environment; otherwise a missing key here is only a warning.
    The demo knows that its spec does not need the `whole_engine`. `home` is that of the embedded servers.
    """
    try:
        file = await asyncio.to_thread(read_spec_file, path)
    except SpecFileError as error:
        return Checked(path, [Finding(str(error), error.line)])
    return await check_content(file, own_worker=own_worker, endpoints=endpoints, whole_engine=whole_engine, home=home)


async def check_content(
    file: SpecFile,
    *,
    own_worker: bool = True,
    endpoints: bool = True,
    whole_engine: bool = True,
    home: Path | None = None,
    by_program: bool = False,
    surroundings: Surroundings | None = None,
) -> Checked:
    """Check what a spec file says, or what a program says instead of one; `by_program`, its own functions may be named.

    Where the `surroundings` are not the files beside the spec, only what they may read is looked at.
    """
    path = file.path
    around: Surroundings = surroundings or BesideSpec(path, home)
    request = await around.apart(_understood, file.content)
    if not isinstance(request, OptimizationRequest):
        return Checked(path, _located(file, request))
    try:
        taken = await around.factor_files(request)
    except DatasetError as error:
        return Checked(path, _located(file, [str(error)]))
    seen = await around.prompt(taken.request)
    request, known = seen.asked, seen.read
    lists = OperatorLists(operator_settings())
    prices = await around.apart(default_prices, known, lists)
    problems = await around.apart(check_request, prices.given_to(known))
    findings = _located(file, [*problems, *([seen.problem] if seen.problem is not None else [])])
    severity: Literal["error", "warning"] = "error" if own_worker else "warning"
    in_batches = await around.apart(placed_models, known, lists)
    elsewhere = [*missing_extras(known.optimizer), *batch_refusals(known, in_batches)]
    findings += [Finding(message, file.line_of(message), severity) for message in elsewhere]
    if whole_engine and (lacking := lacking_packages()):
        message = f"this installation lacks {', '.join(lacking)}, which runs may need: {INSTALL_ENGINE}"
        findings.append(Finding(message, severity=severity))
    strata: Counter[str] = Counter()
    members = Members(known)
    dataset, data_findings = await asyncio.to_thread(_check_dataset, around, known, strata, members)
    sizes: Mapping[Split, int] = {}
    if dataset is not None:
        drawn = members.drawn
        sizes = split_sizes(dataset.count, splits_of(known, dataset.count), strata or None) if drawn is None else drawn.sizes
        counting = sizes if drawn is None else drawn.counting
        data_findings += [*_too_small_a_budget(known, sizes), *known.optimizer.sample_problems(known, counting)]
        if not is_nothing_held_back(known):
            data_findings += automatic_without_test(known, sizes.get(Split.TEST, 0))
        small = await asyncio.to_thread(lambda: [*too_small_splits(known, counting)])
        findings += [Finding(message, file.line_of(message), "warning") for message in (*members.told(), *small)]
    confirmed = told_of_confirmation(known, sizes.get(Split.TEST, 0)) if sizes else None
    if confirmed is not None:
        findings.append(Finding(f"dataset: {confirmed}", file.line_of("dataset: "), "warning"))
    lists = OperatorLists(operator_settings())
    unsent = await around.apart(unsent_parameters, known, lists)
    findings += [Finding(message, file.line_of(message), "warning") for message in unsent]
    data_findings += await around.apart(files_in_instructions, known, lists)
    uses = plugin_uses(request)
    of_program = {use.reference: f"version:{use.version}" for use in uses if by_program and is_of_program(use.reference)}
    plugins = await around.plugins([use for use in uses if use.reference not in of_program])
    plugins = replace(plugins, fingerprints=plugins.fingerprints | of_program)
    told = [f"{where}: {problem}" for where, problem in each_import_once(plugins.problems)]
    findings += _located(file, [*data_findings, *told])
    if endpoints:
        for problem in await check_endpoints(known, own_worker=own_worker):
            certain = own_worker or not problem.local
            findings.append(Finding(problem.message, file.line_of(problem.message), "error" if certain else "warning"))
    told_sizes = {split.value: size for split, size in sizes.items()}
    counting_samples = members.clusters.count if dataset is not None and members.clusters.merge else None
    return Checked(
        path,
        findings,
        request,
        dataset,
        told_sizes,
        plugins,
        known,
        counting_samples,
        taken.files,
        prices,
        in_batches,
        file.text,
    )


def _understood(content: object) -> OptimizationRequest | list[str]:
    """The spec that a content is, or what is wrong with its fields."""
    try:
        return OptimizationRequest.model_validate(content)
    except pydantic.ValidationError as error:
        return explain(error)
    except RecursionError:
        return ["is nested too deeply; flatten it"]


def _located(file: SpecFile, messages: Iterable[str]) -> list[Finding]:
    return [Finding(message, file.line_of(message)) for message in messages]


def _check_dataset(
    around: Surroundings, request: OptimizationRequest, strata: Counter[str], members: Members
) -> tuple[Ingested | None, list[str]]:
    """The dataset's size and content hash, and what is wrong with it; what it is stratified by is counted.

    What is in the store already needs no check, and what a plug-in gives is only known when the run begins.
    """
    given = request.dataset
    if given.items is None and not given.files:
        return None, []
    needs, named, taken = SampleNeeds(request), _NamedData(), _TakenFiles(request)
    lacking, scored = _MissingInputs(needs), _Expectations(needs, given.given_at)
    shown = _ShownFiles(request)
    try:
        source = around.source(request)
        if source is None:
            return None, []
        looks = (
            lacking.look,
            _counting(strata, given.drawn_splits),
            named.look,
            scored.look,
            taken.look,
            shown.look,
            members.look,
        )
        found = check_items(source, *looks, largest_mb=dataset_settings().largest_dataset_mb)
        if given.drawn_splits is not None and given.drawn_splits.stratify_by is not None:
            refuse_nothing_to_stratify_by(given.drawn_splits.stratify_by, bool(strata.keys() - {"", "[]"}))
        members.refuse_nothing_to_group_by()
        members.divide(found.given)
    except (DatasetError, SourceAway) as error:
        return None, [in_the_spec(str(error), given.given_at)]
    unknown = [*unknown_must_pass(request, named.ids, named.tags)]
    return found, [*(lacking.findings if given.files else []), *scored.findings, *taken.findings, *shown.findings, *unknown]


def _too_small_a_budget(request: OptimizationRequest, sizes: Mapping[Split, int]) -> list[str]:
    design = request.design(_of_a_trial(request, {split.value: size for split, size in sizes.items()}))
    problem = refuse_baseline(request.budget, needs_of(request, design, sizes.get(Split.TEST, 0)))
    return [] if problem is None else [problem]


def in_the_spec(message: str, field: str) -> str:
    """A message on a dataset, with the field of a spec that it belongs to."""
    if message.startswith("dataset."):
        return message
    return f"{field}{message.removeprefix('items')}" if message.startswith("items[") else f"{field}: {message}"


def _counting(strata: Counter[str], splits: Splits | None) -> Callable[[str, Item, SampleRow], None]:
    by = splits.stratify_by if splits is not None else None

    def count(_where: str, item: Item, _row: SampleRow) -> None:
        if by is not None:
            strata[stratum(item, by) or ""] += 1

    return count


class _NamedData:
    """The ids and the tags that samples have."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.tags: set[str] = set()

    def look(self, _where: str, _item: Item, row: SampleRow) -> None:
        self.ids.add(row.item_id)
        self.tags.update(row.tags)


class _MissingInputs:
    """Finds the first sample that lacks what a message of the target refers to."""

    def __init__(self, needs: SampleNeeds) -> None:
        self.findings: list[str] = []
        self._needs = needs

    def look(self, where: str, item: Item, _row: SampleRow) -> None:
        problem = None if self.findings else self._needs.lacking(item.input)
        if problem is not None:
            self.findings.append(in_the_spec(f"{where}: {problem}", "dataset.path"))


class _Expectations:
    """Finds the first sample whose `expected` the scorers cannot compare with."""

    def __init__(self, needs: SampleNeeds, field: str) -> None:
        self.findings: list[str] = []
        self._needs = needs
        self._field = field

    def look(self, where: str, item: Item, _row: SampleRow) -> None:
        problem = None if self.findings else self._needs.unusable(item.expected)
        if problem is not None:
            colon = "." if self._field == "dataset.items" else ": "
            self.findings.append(in_the_spec(f"{where}{colon}expected: {problem}", self._field))


class _TakenFiles:
    """Finds the first sample with a file that the target cannot be sent."""

    def __init__(self, request: OptimizationRequest) -> None:
        self.findings: list[str] = []
        taken = request.target.taken_files
        untaken = untaken_files(request, OperatorLists(operator_settings())) if taken else ()
        self._taken = None if taken is None else tuple(kind for kind in taken if kind not in untaken)
        self._field = request.dataset.given_at

    def look(self, where: str, item: Item, _row: SampleRow) -> None:
        if self._taken is None or self.findings:
            return
        wrong = next((file for file in references_in(item.input) if file.media_type not in self._taken), None)
        if wrong is not None:
            told = f"a file is {wrong.media_type}, which the target cannot be sent; give {', '.join(self._taken)}"
            self.findings.append(in_the_spec(f"{where}: {told}", self._field))


class _ShownFiles:
    """Finds the first sample with a file that a model takes no file for where it is shown."""

    def __init__(self, request: OptimizationRequest) -> None:
        self.findings: list[str] = []
        self._shown = FilesInInstructions(request, OperatorLists(operator_settings()))

    def look(self, where: str, item: Item, _row: SampleRow) -> None:
        problem = (
            None
            if self.findings
            else self._shown.of_sample(f"dataset.{where}" if where.startswith("items[") else where, item.input)
        )
        if problem is not None:
            self.findings.append(problem)


def with_size(checked: Checked, dataset_id: str, count: int, given: Mapping[SplitName, int]) -> Checked:
    """What was found out, now that the size of a stored dataset is known, and how many of its samples name each split."""
    known = replace(checked, dataset=Ingested(dataset_id, count))
    if known.request is None:
        return known
    if given:
        return replace(known, splits={split: given[split] for split in SPLIT_NAMES if split in given})
    sizes = split_sizes(count, splits_of(known.request, count))
    return replace(known, splits={split.value: size for split, size in sizes.items()})


def searched_samples(checked: Checked) -> int:
    """How many samples a trial is scored on; 0 when that is not known here."""
    return 0 if checked.request is None else _of_a_trial(checked.request, checked.splits)


def _of_a_trial(request: OptimizationRequest, sizes: Mapping[str, int]) -> int:
    searched = (sizes.get(split.value, 0) for split in (Split.VALIDATION, Split.TRAIN, Split.ALL))
    size = next((size for size in searched if size), 0)
    return min(size, request.samples_per_trial or size)
