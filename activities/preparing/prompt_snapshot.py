"""The prompt that a spec names, read once, when the run begins: what is effective then is the baseline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from activities.datasets import DatasetError
from activities.datasets.sources import worker_file
from activities.releases.override_stores import Overrides
from ratchet.prompts.overrides import Resolved
from ratchet.prompts.prompt_errors import InvalidTemplate, PromptError, UnknownPrompt, UnknownTag, UnknownVersion
from ratchet.prompts.template import PromptTemplate, effective_hash
from workflows.model.spec.prompt import PromptSnapshot, PromptSource
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.prompt_factors import with_prompt

OTHERWISE = "or store the prompt with `ratchet prompts import FILE` and give prompt.name"


class UnusablePrompt(ValueError):
    """A prompt that cannot be read, for good; the message names the field and the fix."""


class UnreadableTemplate(UnusablePrompt):
    """A file that is no prompt; the message quotes it, and is for people who may read it."""


async def with_its_prompt(
    request: OptimizationRequest, overrides: Overrides, data_directory: Path | None
) -> OptimizationRequest:
    """The request with its prompt's sections and parameters as factors, read here unless they are there already."""
    source = request.prompt
    if source is None or source.snapshot is not None:
        return request
    if source.file is not None:
        path = source.file
        try:
            return await asyncio.to_thread(with_file, request, lambda: _inside(path, data_directory))
        except UnreadableTemplate:
            raise UnusablePrompt(f"prompt.file: {path!r} is no prompt; correct the file where it lies") from None
    return with_stored(request, await resolved(source, overrides))


def with_file(request: OptimizationRequest, found: Callable[[], Path]) -> OptimizationRequest:
    """A prompt from a file: its sections are the baseline as they are written."""
    try:
        template = _template(found())
        snapshot = PromptSnapshot(template=template, overlay_hash=effective_hash(template.configuration()))
        return with_prompt(request, snapshot)
    except UnusablePrompt:
        raise
    except PromptError as error:
        raise UnusablePrompt(f"prompt.file: {error}") from None
    except UnicodeDecodeError as error:
        raise UnusablePrompt(f"prompt.file: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise UnusablePrompt(f"prompt.file: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UnusablePrompt(str(error)) from None


def with_stored(request: OptimizationRequest, found: Resolved) -> OptimizationRequest:
    """A stored prompt: what is effective at its tag is the baseline, the tag's own overrides included."""
    state = found.state
    snapshot = PromptSnapshot(template=found.template, overlay_hash=found.hash, revision=state.revision, version=state.version)
    try:
        return with_prompt(request, snapshot, state.overrides)
    except ValueError as error:
        raise UnusablePrompt(str(error)) from None


async def resolved(source: PromptSource, overrides: Overrides) -> Resolved:
    """What is effective of a stored prompt, now."""
    assert source.name is not None
    try:
        store = await overrides.store()
        return await store.resolve(source.name, tag=source.tag)
    except UnknownPrompt as error:
        raise UnusablePrompt(f"prompt.name: {error}; see `ratchet prompts list`") from None
    except (UnknownTag, UnknownVersion) as error:
        raise UnusablePrompt(f"prompt.tag: {error}; see `ratchet prompts tags {source.name}`") from None
    except PromptError as error:
        raise UnusablePrompt(f"prompt: {error}") from None


def _template(file: Path) -> PromptTemplate:
    text = file.read_text(encoding="utf-8")
    try:
        return PromptTemplate.from_yaml(text)
    except InvalidTemplate as error:
        raise UnreadableTemplate("\n".join(f"prompt.file: {told}" for told in str(error).splitlines())) from None


def _inside(path: str, data_directory: Path | None) -> Path:
    try:
        return worker_file(path, data_directory, field="prompt.file", otherwise=OTHERWISE)
    except DatasetError as error:
        raise UnusablePrompt(str(error)) from None
