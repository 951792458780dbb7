"""Files that factors name, taken in by their content as those of samples are: `style: {value: {$file: style.png}}`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from activities.datasets import DatasetError
from activities.datasets.file_folders import Folder, LocalFolder, NamedFile, NoFolder
from activities.datasets.ingestion import read_again
from activities.datasets.sample_files import FileSearch, FoundFile, found_in
from ratchet._files import FileReference, names_a_file, references_in
from ratchet._text.explanation import explain
from store.connection import Database
from store.read.sample_files import FileReader
from store.write.kept_files import FileRow, RunFiles
from workflows.model.spec.factors import Factor
from workflows.model.spec.request import OptimizationRequest

LARGEST_TOGETHER_MB: Final = 200
_FIELDS: Final = ("value", "choices", "when")
"""Of a factor that hold its values."""
_NO_DATA_DIRECTORY: Final = NoFolder(
    "cannot be read by a worker without RATCHET_DATA_DIR; set it, or start the run with `ratchet run` where the file is"
)


class FactorFileMissing(ValueError):
    """A file of a factor is not as it was, or not there; the message names it."""


FactorFiles = Mapping[FileReference, NamedFile | None]
"""Where each file was found; None of one that was given by its content."""


@dataclass(frozen=True)
class WithFactorFiles:
    """A spec whose factors name files by their content only."""

    request: OptimizationRequest
    files: FactorFiles = field(default_factory=dict)


def spec_folder(spec: Path) -> Folder:
    """Where whoever has a spec's file finds them."""
    return LocalFolder(spec.parent, "the spec's folder")


def data_folder(data_directory: Path | None) -> Folder:
    """Where a worker, or a server, finds files that factors name."""
    return _NO_DATA_DIRECTORY if data_directory is None else LocalFolder(data_directory, "RATCHET_DATA_DIR")


def named_in_factors(request: OptimizationRequest) -> tuple[str, ...]:
    """The factors that name files by their paths."""
    return tuple(f"configuration.{name}" for name, factor in request.configuration.items() if names_a_file(_values(factor)))


def with_factor_files(request: OptimizationRequest, folder: Folder) -> WithFactorFiles:
    """Find the files that factors name; the request itself where there are none. Raises DatasetError."""
    search, files = FileSearch(folder), dict[FileReference, NamedFile | None]()
    configuration = dict(request.configuration)
    for name, factor in request.configuration.items():
        values = _values(factor)
        if names_a_file(values):
            values = {key: search.found(part, f"configuration.{name}.{key}") for key, part in values.items()}
            configuration[name] = _with_values(name, factor, values)
        for file in found_in(values):
            reference, place = (file.reference, file.place) if isinstance(file, FoundFile) else (file, None)
            files[reference] = files.get(reference) or place
    if sum(reference.size for reference in files) > LARGEST_TOGETHER_MB * 1024 * 1024:
        raise DatasetError(f"configuration: its files have more than {LARGEST_TOGETHER_MB} MB together; make them smaller")
    if not any(files.values()):
        return WithFactorFiles(request, files)
    return WithFactorFiles(request.model_copy(update={"configuration": configuration}), files)


async def keep_factor_files(database: Database, run_id: str, files: FactorFiles) -> None:
    """Store the files of a run, before it begins. Raises FactorFileMissing where one is not there."""
    if not files:
        return
    by_content = [reference for reference, place in files.items() if place is None]
    unknown = await FileReader(database).unknown(by_content) if by_content else None
    if unknown is not None:
        wrong = f"no {unknown.media_type} of {unknown.size:,} bytes with sha256 {unknown.digest} is in the store"
        raise FactorFileMissing(f"configuration: a factor names a file by its content, but {wrong}; give the file's path")
    try:
        await RunFiles(database).keep(run_id, _rows(files))
    except DatasetError as error:
        raise FactorFileMissing(f"configuration: {error}") from None


async def _rows(files: FactorFiles) -> AsyncIterator[FileRow]:
    for reference, place in files.items():
        content = None if place is None else await asyncio.to_thread(read_again, reference, place)
        yield FileRow(reference.digest, reference.media_type, content)


def _values(factor: Factor) -> dict[str, Any]:
    """What a factor is and may be, where that can hold files."""
    given = {key: getattr(factor, key, None) for key in _FIELDS}
    held = {key: part for key, part in given.items() if isinstance(part, dict | list)}
    return held if names_a_file(held) or any(references_in(held)) else {}


def _with_values(name: str, factor: Factor, values: Mapping[str, Any]) -> Factor:
    try:
        return type(factor).model_validate({**factor.model_dump(mode="json", by_alias=True), **values})
    except ValidationError as error:
        told = "; ".join(explain(error))
        raise DatasetError(f"configuration.{name}: with its files by their contents, {told}") from None
