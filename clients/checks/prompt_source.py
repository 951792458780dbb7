"""The prompt of a spec, as the command line sees it: a file is read here, a stored prompt only looked at.

What a stored prompt is when the run begins, the worker says; looking at it beforehand shows what is wrong with the spec.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activities.preparing.prompt_snapshot import UnusablePrompt, resolved, with_file, with_stored
from activities.releases.override_stores import Overrides
from clients.embedded.stack import stack_state
from clients.runs.service.servers import ServersAway, has_data
from clients.settings import client_settings
from ratchet._text.misspelt_names import meant
from ratchet.prompts import StoreAway
from ratchet.prompts.template import PARAMETER, SECTION
from ratchet.prompts.tokens import tokens_of
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.prompt_factors import template_of


@dataclass(frozen=True)
class SeenPrompt:
    """What was found out about a spec's prompt."""

    asked: OptimizationRequest
    """The request that a run is started with."""
    read: OptimizationRequest
    """The same with every factor, where the prompt could be read; else `asked`."""
    problem: str | None = None


async def look_at_prompt(spec: Path, request: OptimizationRequest, home: Path | None = None) -> SeenPrompt:
    """Read the prompt, if there is one and it can be read from here without starting anything. `home` is that of the embedded
    servers, which may have it."""
    if request.prompt is None:
        return SeenPrompt(request, request)
    try:
        if request.prompt.file is not None:
            beside = spec.parent / request.prompt.file
            with_its_file = with_file(request, lambda: beside)
            return SeenPrompt(with_its_file, with_its_file)
        settings = client_settings()
        if settings.database_url or settings.overrides != "postgres":
            return SeenPrompt(request, await with_stored_prompt(request, settings.database_url))
        if home is None:
            return SeenPrompt(request, request)
        if not has_data(home):
            told = f"prompt.name: there is no prompt {request.prompt.name!r}, nor any other in {home}"
            return SeenPrompt(request, request, f"{told}; store it with `ratchet prompts import FILE`")
        addresses = stack_state(home).addresses
        if addresses is None:
            return SeenPrompt(request, request)  # in the embedded store, which starts with the run
        return SeenPrompt(request, await with_stored_prompt(request, addresses.database_url))
    except UnusablePrompt as error:
        return SeenPrompt(request, request, str(error))
    except StoreAway as error:
        raise ServersAway(f"the store of prompts does not answer: {error}") from None


async def with_stored_prompt(request: OptimizationRequest, database_url: str) -> OptimizationRequest:
    """What the run would begin with, if it began now."""
    assert request.prompt is not None
    overrides = Overrides(client_settings().overrides, database_url)
    try:
        try:
            return with_stored(request, await resolved(request.prompt, overrides))
        except UnusablePrompt as error:
            names = await (await overrides.store()).names()
            asked = str(request.prompt.name)
            close = None if asked in names else meant(asked, names)
            raise UnusablePrompt(f"{error}; did you mean {close}?" if close else str(error)) from None
    finally:
        await overrides.close()


def described_prompt(request: OptimizationRequest) -> str:
    """The prompt in a line: what it is, and how many tokens each section has."""
    assert request.prompt is not None
    source = request.prompt
    if source.snapshot is None:
        return f"{source.described}, read when the run begins"
    sections = ", ".join(f"{s['path']} {s['tokens']}{' (frozen)' if s['frozen'] else ''}" for s in _sections(request))
    return f"{source.described}; tokens: {sections}"


def prompt_facts(request: OptimizationRequest) -> dict[str, Any]:
    """The same as JSON."""
    assert request.prompt is not None
    source = request.prompt
    facts: dict[str, Any] = {"name": source.name, "tag": None if source.file else source.tag, "file": source.file}
    if source.snapshot is None:
        return facts
    template = source.snapshot.template
    return facts | {
        "name": template.name,
        "overlay_hash": source.snapshot.overlay_hash,
        "version": source.snapshot.version,
        "sections": _sections(request),
        "parameters": [f"{PARAMETER}{name}" for name in template.parameters],
    }


def _sections(request: OptimizationRequest) -> list[dict[str, Any]]:
    template = template_of(request)
    return [
        {
            "path": section.path,
            "kind": section.kind,
            "frozen": not section.accepts_overrides,
            "tokens": tokens_of(request.baseline[f"{SECTION}{section.path}"]),
        }
        for section in (template.sections if template is not None else [])
    ]
