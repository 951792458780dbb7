"""What a spec refers to, as far as whoever checks it may read it: files beside it, or what the operator of a server allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from activities.datasets import DatasetError, Source, source_of
from activities.preparing.factor_files import WithFactorFiles, spec_folder, with_factor_files
from clients.checks.plugin_inspection import Inspection, inspect_plugins
from clients.checks.plugin_process import PluginUse
from clients.checks.prompt_source import SeenPrompt, look_at_prompt
from clients.settings import dataset_settings
from workflows.model.spec.request import OptimizationRequest

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


class Surroundings(Protocol):
    """Where a spec is checked."""

    async def apart(self, check: Callable[_Given, _Found], *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        """Run a piece of the check where it holds up nobody else."""

    async def factor_files(self, request: OptimizationRequest) -> WithFactorFiles:
        """Find the files that factors name. Raises DatasetError."""

    async def prompt(self, request: OptimizationRequest) -> SeenPrompt:
        """Look at the prompt of a spec."""

    def source(self, request: OptimizationRequest) -> Source | None:
        """What a spec's path, paths or items name; None where that may not be read from here. Raises DatasetError."""

    async def plugins(self, uses: Sequence[PluginUse]) -> Inspection:
        """Import plug-ins, and say what is wrong with them."""


@dataclass(frozen=True)
class BesideSpec:
    """The files beside a spec, for whoever runs the command."""

    spec: Path
    home: Path | None = None
    """That of the embedded servers."""

    async def apart(self, check: Callable[_Given, _Found], *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        return check(*args, **kwargs)

    async def factor_files(self, request: OptimizationRequest) -> WithFactorFiles:
        return await asyncio.to_thread(with_factor_files, request, spec_folder(self.spec))

    async def prompt(self, request: OptimizationRequest) -> SeenPrompt:
        return await look_at_prompt(self.spec, request, self.home)

    def source(self, request: OptimizationRequest) -> Source | None:
        return source_beside(self.spec, request)

    async def plugins(self, uses: Sequence[PluginUse]) -> Inspection:
        return await inspect_plugins(uses, self.spec.parent)


def source_beside(spec: Path, request: OptimizationRequest) -> Source:
    """What a spec's path, paths or items name: files relative to the spec, or objects in S3."""
    return source_of(request.dataset, lambda path: _present(spec.parent, path), dataset_settings(), spec.parent)


def _present(folder: Path, path: str) -> Path:
    file = folder / path
    if not file.is_file():
        told = "" if Path(path).is_absolute() else f"; the path begins in {str(folder)!r}"
        raise DatasetError(f"there is no file {str(file)!r}{told}")
    return file
