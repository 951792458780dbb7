"""What a release is about: which configuration shall replace which, and from where both are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from activities.releases.override_stores import Overrides
from activities.releases.tags import TagMoves
from ratchet.prompts.overrides import Resolved, TagState
from ratchet.prompts.template import PromptTemplate, effective_hash
from store.schema import StoreError
from store.write.repositories import Store
from workflows.model.failures import one_line, shorten
from workflows.model.spec.release import CANARY, ReleaseRequest
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.releases.target import first_template, released_part
from workflows.rules.releases.versions import Version


class NothingToRelease(ValueError):
    """The request names nothing that can be released; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A configuration of a prompt, and what it is meant to replace."""

    tag: str
    """The tag that moves."""
    validated_on: str
    """The tag at which the base must be."""
    base: Mapping[str, Any]
    """What it was compared with; for a rollback, what it replaces."""
    configuration: Mapping[str, Any]
    first_template: PromptTemplate | None = None
    """What a prompt that is not there yet begins with."""
    version: str | None = None
    """Where it has one already."""
    why: str = ""
    """The steps that led to it, in words."""

    @property
    def base_hash(self) -> str:
        return effective_hash(self.base)

    @property
    def overlay_hash(self) -> str:
        return effective_hash(self.configuration)

    def check_against(self, present: Resolved | None) -> None:
        """Raise InvalidOverride where the prompt cannot take the configuration, before anything is written."""
        if self.version is not None or (present is not None and present.hash != self.base_hash):
            return
        template = self.first_template if present is None else present.template
        if template is not None:
            template.overrides_of(self.configuration)


class Subjects:
    """Finds out what requests are about."""

    def __init__(self, store: Store, overrides: Overrides, moves: TagMoves) -> None:
        self._store = store
        self._overrides = overrides
        self._moves = moves

    async def of(self, request: ReleaseRequest) -> Subject:
        """The subject of a request."""
        if request.kind == "rollback":
            return await self._earlier_version(request)
        if request.from_tag is not None:
            return await self._out_already(request, request.from_tag)
        if request.run_id is None or request.config_hash is None:
            raise NothingToRelease("the request names no candidate of a run, no tag and no version; give one of them")
        return await self._of_run(request, request.run_id, request.config_hash)

    async def _of_run(self, request: ReleaseRequest, run_id: str, config_hash: str) -> Subject:
        spec = await self._store.runs.spec_of(run_id)
        if spec is None:
            raise StoreError(f"run {run_id!r} is not in the store: it was deleted, or never prepared")
        asked = OptimizationRequest.model_validate(spec)
        steps = await self._store.search_history.steps_to(run_id, request.candidate_id) if request.candidate_id else []
        return Subject(
            tag=CANARY if request.kind == "canary" else request.tag,
            validated_on=request.tag,
            base=released_part(asked, asked.baseline),
            configuration=released_part(asked, await self._store.overlays.load(config_hash)),
            first_template=_first_template(asked, request.prompt),
            why=shorten(one_line("; ".join(steps) or f"winner of {asked.name}")),
        )

    async def _out_already(self, request: ReleaseRequest, source: str) -> Subject:
        out = await self._moves.at(request.prompt, source)
        if out is None:
            raise NothingToRelease(
                f"{request.prompt} has no tag {source!r}; `ratchet prompts tags {request.prompt}` lists them"
            )
        validated = await self._store.release_log.validated_base(request.prompt, source, out.hash)
        if validated is None:
            raise NothingToRelease(
                f"what {source} of {request.prompt} points to was not released there as a canary, so nobody knows what it was "
                "compared with; release the run itself"
            )
        validated_on, base_hash = validated
        if validated_on != request.tag:
            raise NothingToRelease(
                f"{source} was validated against {validated_on}, not {request.tag}; release it to {validated_on}"
            )
        return Subject(
            tag=request.tag,
            validated_on=request.tag,
            base=await self._store.overlays.load(base_hash),
            configuration=out.configuration,
            version=out.state.version,
            why=out.state.change.why,
        )

    async def _earlier_version(self, request: ReleaseRequest) -> Subject:
        present = await self._moves.at(request.prompt, request.tag)
        if present is None:
            raise NothingToRelease(f"{request.prompt} has no tag {request.tag!r}, so there is nothing to roll back")
        prompts = await self._overrides.store()
        version = request.version or _version_before(present.state, await prompts.history(request.prompt, request.tag))
        wanted = await prompts.resolve(request.prompt, tag=_number(version))
        return Subject(
            tag=request.tag,
            validated_on=request.tag,
            base=present.configuration,
            configuration=wanted.configuration,
            version=wanted.state.version,
        )


def _version_before(present: TagState, history: Sequence[TagState]) -> str:
    """The version that the tag pointed to before the one that it points to now."""
    for state in reversed(history):
        if state.version is not None and not state.deleted and state.version != present.version:
            return state.version
    raise NothingToRelease(f"{present.tag} of {present.name} never pointed to another version; say which with --to VERSION")


def _number(version: str) -> str:
    try:
        return str(Version.parse(version))
    except ValueError as error:
        raise NothingToRelease(str(error)) from None


def _first_template(asked: OptimizationRequest, prompt: str) -> PromptTemplate | None:
    try:
        return first_template(asked, prompt)
    except ValueError as error:
        raise NothingToRelease(str(error)) from None
