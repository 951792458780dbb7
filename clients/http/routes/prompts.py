"""Prompts over HTTP: what is in force under which tag, who released what, what differs, and moving a tag."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field, JsonValue

from clients.http.access.audited_requests import Noted
from clients.http.access.callers import CalledBy
from clients.http.backend import NO_CONTROLS, Backend, Offset, PromptId, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.http.missing_names import no_prompt
from clients.http.override_store import refused_prompts
from clients.http.routes.releases import Word, answer_of_writer, approver
from clients.reports.comparisons.diff import Segment, differences
from ratchet._frozen import Payload
from ratchet._text.placeholders import Unfillable, UnknownPlaceholder
from ratchet.prompts import OverrideStore, Resolved, TagState
from ratchet.prompts.names import SOURCE, TagName, Version
from ratchet.prompts.template import PARAMETER
from store.read.prompt_runs import PromptRun
from workflows.model.spec.release import ReleaseRequest, ReleaseState
from workflows.rules.releases.versions import changes, class_of, frozen_parts

MOST_RELEASES = 200

router = APIRouter(prefix="/v1/private/prompts", tags=["prompts"], route_class=JsonRoute)

At = Annotated[
    str, Query(min_length=1, max_length=200, pattern=NO_CONTROLS, description="A tag, or a version such as `1.2.0`.")
]


class PromptTag(Payload):
    """A tag, or a version, and the change that put it where it is."""

    tag: str
    revision: int
    version: str | None
    hash: str
    """Of the configuration in force."""
    temporary: bool
    """Made for a run, and of no use without it."""
    owner: str | None
    """The run that a temporary tag was made for."""
    deleted: bool
    action: str
    by: str
    why: str
    at: datetime


class ListedPrompt(Payload):
    """A prompt in the list."""

    prompt: str
    tags: tuple[PromptTag, ...]
    """Those that last."""
    temporary_tags: int
    versions: int
    changed_at: datetime | None
    waiting: int
    """Releases that wait for somebody's word."""


class PromptPage(Payload):
    """Some of the prompts, by name."""

    total: int
    items: tuple[ListedPrompt, ...]


class PromptDetail(Payload):
    """A prompt with its tags, versions, releases and runs."""

    prompt: str
    tags: tuple[PromptTag, ...]
    versions: tuple[PromptTag, ...]
    """The newest first; each as the change that introduced it."""
    releases: tuple[ReleaseState, ...]
    """Its audit log, the newest first."""
    runs: tuple[PromptRun, ...]
    """Those that began with it, or were to be released to it; the newest first."""


class PromptSection(Payload):
    """A section of a prompt, as it is in force."""

    path: str
    kind: str
    tokens: int
    frozen: bool
    """Whether no optimizer may change it."""
    overridden: bool
    """Whether it is another than its author wrote."""
    value: JsonValue


class PromptParameter(Payload):
    """A parameter of a prompt, as it is in force."""

    name: str
    value: JsonValue
    overridden: bool
    domain: dict[str, JsonValue]
    """Its type and range."""


class PromptContent(Payload):
    """What a tag or a version puts in force."""

    prompt: str
    at: PromptTag
    description: str
    tokens: int
    sections: tuple[PromptSection, ...]
    parameters: tuple[PromptParameter, ...]


class PromptDifference(Payload):
    """One part that differs."""

    factor: str
    change: str
    """What kind of change it is, in words."""
    before: Any
    after: Any
    segments: tuple[Segment, ...]
    """Both values in one text."""


class PromptDifferences(Payload):
    """What differs between two states of a prompt."""

    prompt: str
    before: str
    after: str
    change_class: str | None
    """`patch`, `minor` or `major`; null where nothing differs."""
    differences: tuple[PromptDifference, ...]


class RenderAsked(Payload):
    """For what a prompt is rendered."""

    at: Annotated[str, Field(min_length=1, max_length=200, pattern=NO_CONTROLS)] = "stable"
    """A tag, or a version."""
    input: JsonValue = None
    """What `{{input}}` and `{{input.NAME}}` stand for."""


class RenderedPrompt(Payload):
    """A prompt, rendered."""

    text: str
    messages: tuple[dict[str, str], ...]
    tools: tuple[dict[str, Any], ...]


class RollbackAsked(Word):
    """Where a tag goes."""

    tag: TagName = "stable"
    version: Version | None = None
    """Any version; left out, the one before the present one."""


class ReleaseAsked(Word):
    """Which proven tag is released."""

    from_tag: TagName = "canary"
    """What this tag points to is released, against the base that it was validated with."""
    tag: TagName = "stable"
    """The tag that moves."""


@router.get("", operation_id="listPrompts", responses=responses())
async def list_prompts(
    backend: Served,
    caller: CalledBy,
    search: Annotated[
        str | None, Query(min_length=1, max_length=200, pattern=NO_CONTROLS, description="Part of the name.")
    ] = None,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 50,
) -> PromptPage:
    """Prompts by name, with where their tags are."""
    store = await _store(backend)
    with refused_prompts():
        names = await store.names()
    if caller.sees_only is not None:
        names = await _of_team(backend, names, caller.sees_only)
    if search is not None:
        names = [name for name in names if search.lower() in name.lower()]
    waiting = await backend.reader.prompt_runs.waiting()
    with refused_prompts():
        items = [await _listed(store, name, waiting.get(name, 0)) for name in names[offset : offset + limit]]
    return PromptPage(total=len(names), items=tuple(items))


@router.get("/{prompt}", operation_id="getPrompt", responses=responses(404))
async def get_prompt(prompt: PromptId, backend: Served) -> PromptDetail:
    """A prompt with its tags and versions, who released what when, and which runs touched it."""
    store = await _store(backend)
    with refused_prompts():
        await _existing(store, prompt)
        tags, versions = await store.list_tags(prompt), await store.versions(prompt)
    releases = await backend.reader.releases.listed(prompt=prompt, limit=MOST_RELEASES)
    return PromptDetail(
        prompt=prompt,
        tags=tuple(map(_tag, tags)),
        versions=tuple(map(_tag, reversed(versions))),
        releases=tuple(releases),
        runs=tuple(await backend.reader.prompt_runs.of_prompt(prompt)),
    )


@router.get("/{prompt}/content", operation_id="getPromptContent", responses=responses(404, 409))
async def get_prompt_content(prompt: PromptId, backend: Served, at: At = "stable") -> PromptContent:
    """The sections and parameters that a tag or a version puts in force."""
    store = await _store(backend)
    with refused_prompts(prompt, "at"):
        found = await store.resolve(prompt, tag=at)
    sections = _sections(found)
    return PromptContent(
        prompt=prompt,
        at=_tag(found.state),
        description=found.template.description,
        tokens=sum(section.tokens for section in sections),
        sections=sections,
        parameters=_parameters(found),
    )


@router.get("/{prompt}/differences", operation_id="comparePrompt", responses=responses(404, 409))
async def compare_prompt(
    prompt: PromptId,
    backend: Served,
    before: Annotated[
        str,
        Query(
            min_length=1,
            max_length=200,
            pattern=NO_CONTROLS,
            description="A tag, a version, or `source`: the prompt as its author wrote it.",
        ),
    ] = SOURCE,
    after: Annotated[str, Query(min_length=1, max_length=200, pattern=NO_CONTROLS, description="Likewise.")] = "stable",
) -> PromptDifferences:
    """What differs between two versions or tags, part by part, texts word by word."""
    store = await _store(backend)
    with refused_prompts(prompt, "before"):
        old = await _in_force(store, prompt, before, after)
    with refused_prompts(prompt, "after"):
        new = await _in_force(store, prompt, after, before)
    return await asyncio.to_thread(_compared, prompt, before, after, old, new)


@router.get("/{prompt}/history", operation_id="listPromptHistory", responses=responses(404, 409))
async def list_prompt_history(
    prompt: PromptId,
    backend: Served,
    tag: Annotated[str, Query(min_length=1, max_length=200, pattern=NO_CONTROLS, description="Which tag.")] = "stable",
) -> list[PromptTag]:
    """Every state that a tag ever had, the newest first; deletions are states, too."""
    store = await _store(backend)
    with refused_prompts(prompt, "tag"):
        await _existing(store, prompt)
        return [_tag(state) for state in reversed(await store.history(prompt, tag))]


@router.post("/{prompt}/render", operation_id="renderPrompt", responses=responses(404, 409))
async def render_prompt(prompt: PromptId, asked: RenderAsked, backend: Served) -> RenderedPrompt:
    """Render a prompt for one input, as production code would."""
    store = await _store(backend)
    with refused_prompts(prompt, "at", unknown=422):
        found = await store.resolve(prompt, tag=asked.at)
    try:
        rendered = found.render(asked.input)
        messages, tools = rendered.messages, rendered.tools
    except UnknownPlaceholder as error:
        raise Refused(422, f"input: nothing fills {{{{{error.name}}}}}; the input must have it", "input") from None
    except Unfillable as error:
        raise Refused(422, f"input: {error}", "input") from None
    return RenderedPrompt(
        text=rendered.text,
        messages=tuple(messages),
        tools=tuple(
            {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)} for tool in tools
        ),
    )


@router.post("/{prompt}/rollback", operation_id="rollBackPrompt", responses=responses(404, 409, 504))
async def roll_back_prompt(
    prompt: PromptId, asked: RollbackAsked, backend: Served, caller: CalledBy, noted: Noted
) -> ReleaseState:
    """Move a tag to an earlier version, or to any other, as a step of its own in the audit log."""
    by = approver(asked, caller)
    noted.prompt = prompt
    return await _released(backend, prompt, "rollback", by, asked, tag=asked.tag, version=asked.version)


@router.post("/{prompt}/release", operation_id="releasePrompt", responses=responses(404, 409, 504))
async def release_prompt(
    prompt: PromptId, asked: ReleaseAsked, backend: Served, caller: CalledBy, noted: Noted
) -> ReleaseState:
    """Release what a canary has proven: the tag moves if it still points to what the canary was validated with."""
    by = approver(asked, caller)
    noted.prompt = prompt
    return await _released(backend, prompt, "promote", by, asked, tag=asked.tag, from_tag=asked.from_tag)


async def _released(
    backend: Backend, prompt: str, kind: Literal["promote", "rollback"], by: str, word: Word, **more: Any
) -> ReleaseState:
    store = await _store(backend)
    with refused_prompts():
        await _existing(store, prompt)
    asked = ReleaseRequest(release_id=uuid.uuid4().hex[:16], prompt=prompt, kind=kind, by=by, reason=word.comment, **more)
    return await answer_of_writer(backend, prompt, "request", asked)


async def _store(backend: Backend) -> OverrideStore:
    return await backend.prompts.store(backend.servers.database_url)


async def _existing(store: OverrideStore, prompt: str) -> None:
    if prompt not in await store.names():
        raise Refused(404, no_prompt(prompt), "prompt")


async def _of_team(backend: Backend, names: list[str], team: str) -> list[str]:
    """Names in namespaces of a team."""
    in_namespace: dict[str, list[str]] = defaultdict(list)
    for name in names:
        in_namespace[name.partition("/")[0]].append(name)
    mine = {first for first, some in in_namespace.items() if await backend.reader.teams.of_prompt(some[0]) == team}
    return [name for name in names if name.partition("/")[0] in mine]


async def _listed(store: OverrideStore, name: str, waiting: int) -> ListedPrompt:
    states = await store.list_tags(name)
    lasting = [state for state in states if not state.temporary]
    return ListedPrompt(
        prompt=name,
        tags=tuple(map(_tag, lasting)),
        temporary_tags=len(states) - len(lasting),
        versions=len(await store.versions(name)),
        changed_at=max((state.change.at for state in lasting), default=None),
        waiting=waiting,
    )


def _tag(state: TagState) -> PromptTag:
    return PromptTag(
        tag=state.tag,
        revision=state.revision,
        version=state.version,
        hash=state.config_hash,
        temporary=state.temporary,
        owner=state.owner,
        deleted=state.deleted,
        action=state.change.action,
        by=state.change.by,
        why=state.change.why,
        at=state.change.at,
    )


def _sections(found: Resolved) -> tuple[PromptSection, ...]:
    return tuple(
        PromptSection(
            path=section.path,
            kind=section.kind,
            tokens=section.tokens,
            frozen=not section.accepts_overrides,
            overridden=section.path in found.state.overrides.sections,
            value=section.value,
        )
        for section in found.descriptor.sections
    )


def _parameters(found: Resolved) -> tuple[PromptParameter, ...]:
    return tuple(
        PromptParameter(
            name=name,
            value=found.configuration[f"{PARAMETER}{name}"],
            overridden=name in found.state.overrides.parameters,
            domain=parameter.model_dump(mode="json", exclude_none=True),
        )
        for name, parameter in found.template.parameters.items()
    )


async def _in_force(store: OverrideStore, prompt: str, reference: str, other: str) -> Resolved | dict[str, Any]:
    """What a reference puts in force; of `source`, what the author of the other one wrote."""
    if reference != SOURCE:
        return await store.resolve(prompt, tag=reference)
    return (await store.resolve(prompt, tag="stable" if other == SOURCE else other)).template.configuration()


def _compared(
    prompt: str, before: str, after: str, old: Resolved | dict[str, Any], new: Resolved | dict[str, Any]
) -> PromptDifferences:
    one, other = (side.configuration if isinstance(side, Resolved) else side for side in (old, new))
    template = next((side.template for side in (old, new) if isinstance(side, Resolved)), None)
    found = changes(one, other, () if template is None else frozen_parts(template))
    size = class_of(found.values())
    told = {difference.factor: difference for difference in differences(one, other)}
    return PromptDifferences(
        prompt=prompt,
        before=before,
        after=after,
        change_class=None if size is None else size.name.lower(),
        differences=tuple(
            PromptDifference(
                factor=factor,
                change=change.value,
                before=told[factor].before,
                after=told[factor].after,
                segments=told[factor].segments,
            )
            for factor, change in found.items()
            if factor in told
        ),
    )
