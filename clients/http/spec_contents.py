"""What a posted spec refers to, read here as workers read it, so that its run gets the id that the command line gives it.

Only what the operator of this server allows is read: files inside RATCHET_DATA_DIR, objects under RATCHET_OBJECTS, plug-ins
that RATCHET_PLUGINS and RATCHET_PLUGIN_PATH name. Where only the workers may read something, the id speaks of its name, and
the answer says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from activities.datasets import DatasetError, Source, SourceAway, check_items, ingest, source_of, worker_file
from activities.endpoints.endpoint_policy import NotListed, OperatorLists
from activities.plugins.loader import VERSION
from activities.preparing.factor_files import FactorFiles, WithFactorFiles, data_folder, named_in_factors, with_factor_files
from activities.preparing.prompt_snapshot import UnusablePrompt, with_its_prompt
from activities.releases.override_stores import Overrides
from clients.checks.plugin_inspection import Inspection, first_changed, inspect_plugins, plugin_uses
from clients.checks.plugin_process import PluginUse
from clients.http.errors import Refused
from clients.runs.identity import by_dataset_id
from clients.runs.service.servers import Servers
from clients.settings import client_settings, dataset_settings, operator_settings
from ratchet._formats.canonical import canonical_json
from ratchet.prompts import StoreAway
from store.read.access.teams import DEFAULT_TEAM
from store.write.datasets import Datasets
from workflows.model.spec.dataset import Dataset, is_object
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.prompt_factors import is_read

MOST_INSPECTIONS: Final = 50
"""Of plug-ins, kept while their files stay as they are."""


@dataclass(frozen=True)
class SpecContents:
    """A spec with all that its run's id speaks of."""

    asked: OptimizationRequest
    """What the run is started with: a dataset that was read is named by its content."""
    known: OptimizationRequest
    """The same with every factor of its prompt, where that could be read."""
    dataset_id: str
    fingerprints: Mapping[str, str]
    sources: Mapping[str, str]
    unseen: tuple[str, ...]
    """Fields that name what this server may not read."""
    files: FactorFiles
    """Those that its factors name, and where they were found."""
    brought: bool = False
    """Whether the samples came with the spec, or lie where it says: who starts it has them, then."""


@dataclass
class SpecReader:
    """Reads what specs refer to; one per server."""

    _inspections: dict[str, Inspection] = field(default_factory=dict)
    _inspecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ingesting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self, servers: Servers, request: OptimizationRequest, team: str = DEFAULT_TEAM) -> SpecContents:
        """Read everything, for a team. What is wrong with it is refused, before anything is started."""
        try:
            taken, unseen_files = await factor_files_of(request)
        except DatasetError as error:
            raise Refused(422, error.unquoted, error.unquoted.partition(": ")[0]) from None
        request = taken.request
        try:
            known, unseen = await prompt_of(servers, request)
        except UnusablePrompt as error:
            raise Refused(422, str(error), str(error).partition(": ")[0]) from None
        dataset_id, unseen_data = await self._dataset(servers, request, team)
        brought = not unseen_data and (request.dataset.items is not None or request.dataset.is_read_from_files)
        if request.dataset.is_read_from_files and not unseen_data:
            request = by_dataset_id(request, dataset_id)
        fingerprints, sources, unseen_code = await self._plugins(request)
        asked = request if request.prompt is None or request.prompt.name is not None else _with_prompt_of(request, known)
        nowhere = (*unseen_data, *unseen_files, *unseen, *unseen_code)
        return SpecContents(asked, known, dataset_id, fingerprints, sources, nowhere, taken.files, brought)

    async def _dataset(self, servers: Servers, request: OptimizationRequest, team: str) -> tuple[str, tuple[str, ...]]:
        given, settings = request.dataset, dataset_settings()
        try:
            if given.items is not None and not given.is_read_from_files:
                read = asyncio.to_thread(check_items, given.items, largest_mb=settings.largest_dataset_mb)
                return (await read).dataset_id, ()
            if given.is_read_from_files:
                unseen = tuple(field for field, path in given.files.items() if not may_read(path))
                if unseen:
                    return canonical_json(given.files), unseen
                source = allowed_source(given)
                async with self._ingesting:
                    found = await ingest(servers.database, source, given.name, largest_mb=settings.largest_dataset_mb)
                return found.dataset_id, ()
        except DatasetError as error:
            told = error.unquoted if given.files else str(error)
            raise Refused(422, told, given.given_at) from None
        except SourceAway as error:
            raise Refused(503, f"{given.given_at}: {error}", given.given_at, retry_after=5) from None
        return given.ref or await stored_dataset(servers, request, team), ()

    async def _plugins(self, request: OptimizationRequest) -> tuple[Mapping[str, str], Mapping[str, str], tuple[str, ...]]:
        """Fingerprints and sources. Code whose every version is stated is not even imported."""
        references = request.plugin_references
        if all(version is not None for version in references.values()):
            return {reference: f"{VERSION}{version}" for reference, version in references.items()}, {}, ()
        found = await self.inspected(plugin_uses(request))
        if found.problems:
            return {}, {}, tuple(found.problems)
        return found.fingerprints, found.sources, ()

    async def inspected(self, uses: Sequence[PluginUse]) -> Inspection:
        """Import plug-ins that the operator allows, unless they were and are as they were."""
        settings = client_settings()
        key = json.dumps([settings.plugins, str(settings.plugin_path), [vars(use) for use in uses]], sort_keys=True)
        async with self._inspecting:
            known = self._inspections.get(key)
            if known is not None and await asyncio.to_thread(first_changed, known.files) is None:
                return known
            found = await inspect_plugins(uses, settings.plugin_path, settings.plugins.split(","))
            if len(self._inspections) >= MOST_INSPECTIONS:
                self._inspections.clear()
            if not found.problems:
                self._inspections[key] = found
            return found


def allowed_source(given: Dataset) -> Source:
    """What a dataset's path, paths or items name, within what the operator allows. Raises DatasetError."""
    settings = dataset_settings()
    refuse_object = OperatorLists(operator_settings()).refuse_object
    return source_of(given, lambda path: worker_file(path, settings.data_dir), settings, settings.data_dir, refuse_object)


async def factor_files_of(request: OptimizationRequest) -> tuple[WithFactorFiles, tuple[str, ...]]:
    """The request with the files that its factors name, and the factors whose files only workers may read.

    Raises DatasetError.
    """
    data_directory = dataset_settings().data_dir
    unseen = named_in_factors(request) if data_directory is None else ()
    if unseen:
        return WithFactorFiles(request), unseen
    return await asyncio.to_thread(with_factor_files, request, data_folder(data_directory)), ()


async def prompt_of(servers: Servers, request: OptimizationRequest) -> tuple[OptimizationRequest, tuple[str, ...]]:
    """The spec with what its prompt is, and the field of a prompt that only workers may read. Raises UnusablePrompt."""
    data_directory = dataset_settings().data_dir
    if is_read(request):
        return request, ()
    if request.prompt is not None and request.prompt.file is not None and data_directory is None:
        return request, ("prompt.file",)
    overrides = Overrides(client_settings().overrides, servers.database_url)
    try:
        return await with_its_prompt(request, overrides, data_directory), ()
    except StoreAway as error:
        raise Refused(503, f"the store of prompts does not answer: {error}", retry_after=1) from None
    finally:
        await overrides.close()


async def stored_dataset(servers: Servers, request: OptimizationRequest, team: str) -> str:
    """The id of the dataset of the store that a spec names. Refuses one that is not there."""
    given, datasets = request.dataset, Datasets(servers.database)
    found = given.id or await datasets.named(given.name or "", team)
    if found is None:
        raise Refused(422, f"dataset.name: {given.name!r} is not in the store; add it first", "dataset.name")
    if await datasets.size(found) is None:
        raise Refused(422, f"dataset.id: {found[:12]}… is not in the store; add the dataset first", "dataset.id")
    return found


def _with_prompt_of(request: OptimizationRequest, known: OptimizationRequest) -> OptimizationRequest:
    """The request with a prompt that was read from a file, as it was read."""
    return request.model_copy(update={"prompt": known.prompt, "configuration": known.configuration})


def may_read(path: str) -> bool:
    """Whether the operator lets this server read a dataset where it lies."""
    if not is_object(path):
        return dataset_settings().data_dir is not None
    try:
        OperatorLists(operator_settings()).refuse_object(path)
    except NotListed:
        return False
    return True
