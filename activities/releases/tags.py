"""Moving a tag for a release: looked at, refused when its base is not what was validated, swapped, recognised afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from activities.releases.override_stores import Overrides
from ratchet.prompts.overrides import Change, Resolved, TagState
from ratchet.prompts.prompt_errors import UnknownPrompt, UnknownTag
from store.read.releases import StoredRelease
from workflows.model.spec.release import ReleaseState, ReleaseStatus
from workflows.rules.releases.versions import FIRST, ChangeClass, Version, changes, class_of, frozen_parts, next_version

Objection = tuple[ReleaseStatus, str]
"""How a release ends that moves nothing, and why."""

SHOWN_OF_HASH = 12


@dataclass(frozen=True, slots=True)
class Places:
    """The tags that a release is about, as they are now."""

    base: Resolved | None
    """The tag that the candidate was validated against."""
    target: Resolved | None
    """The tag that moves: the same one, unless a canary is released."""


class TagMoves:
    """Moves tags of one override store."""

    def __init__(self, overrides: Overrides) -> None:
        self._overrides = overrides

    async def at(self, prompt: str, tag: str) -> Resolved | None:
        """What a tag points to; None where there is no such tag."""
        try:
            return await (await self._overrides.store()).resolve(prompt, tag=tag)
        except (UnknownPrompt, UnknownTag):
            return None

    async def places(self, stored: StoredRelease) -> Places:
        """Where the tags stand."""
        state = stored.state
        base = await self.at(state.prompt, stored.validated_on)
        target = base if state.tag == stored.validated_on else await self.at(state.prompt, state.tag)
        return Places(base, target)

    async def made(self, state: ReleaseState, places: Places) -> TagState | None:
        """The move that this very release made already, however long ago that was."""
        if places.target is None or places.target.state.change.id == state.release_id:
            return None if places.target is None else places.target.state
        history = await (await self._overrides.store()).history(state.prompt, state.tag)
        return next((moved for moved in history if moved.change.id == state.release_id), None)

    async def move(self, stored: StoredRelease, places: Places, at: datetime) -> TagState:
        """Swap. Raises StaleBase when the tag moved in the meantime, and VersionTaken when the number did."""
        prompts = await self._overrides.store()
        state, target, base = stored.state, places.target, places.base
        if base is None:
            base = await self._begun(stored, at)
            target = base if state.tag == stored.validated_on else target
        if state.version is None:
            template, version = base.template, str(await self._number(stored, base))
        else:
            template, version = (await prompts.resolve(state.prompt, tag=state.version)).template, state.version
        return await prompts.store(
            template,
            template.overrides_of(stored.configuration),
            tag=state.tag,
            expected=None if target is None else target.state.revision,
            change=_change(state, state.release_id, state.kind, at),
            version=version,
            parent=base.state.version,
            frozen_may_change=state.kind == "rollback" or state.tag != stored.validated_on,
        )

    async def _begun(self, stored: StoredRelease, at: datetime) -> Resolved:
        """A prompt that nobody knew begins with what the run measured as its baseline."""
        state, template = stored.state, stored.first_template
        assert template is not None, "without it the release is refused"
        change = _change(state, f"{state.release_id}-base", "seed", at)
        prompts = await self._overrides.store()
        await prompts.seed(template, tag=stored.validated_on, change=change)
        return await prompts.resolve(state.prompt, tag=stored.validated_on)

    async def _number(self, stored: StoredRelease, base: Resolved) -> Version:
        """The number that this content has already, or the next one that nothing ever had."""
        known = await (await self._overrides.store()).versions(stored.state.prompt)
        numbers = {Version.parse(version.version): version for version in known if version.version is not None}
        for number, version in numbers.items():
            if (version.config_hash, version.template_hash) == (stored.state.overlay_hash, base.template.hash):
                return number
        change = class_of(changes(base.configuration, stored.configuration, frozen_parts(base.template)).values())
        present = Version.parse(base.state.version) if base.state.version else max(numbers, default=FIRST)
        return next_version(present, change or ChangeClass.PATCH, numbers)


def objection(stored: StoredRelease, places: Places) -> Objection | None:
    """Why the tag must not move, if there is a reason."""
    state = stored.state
    if places.target is not None and places.target.hash == state.overlay_hash:
        return "unchanged", f"{state.tag} of {state.prompt} points to exactly this already"
    if state.kind == "rollback":
        return None if places.target is not None else ("stale_base", f"{state.prompt} has no tag {state.tag} any more")
    if places.base is None:
        if stored.first_template is not None:
            return None
        return "stale_base", f"{state.prompt} has no tag {stored.validated_on}, against which this was validated"
    if places.base.hash == state.base_hash:
        return None
    present = f"{places.base.state.version or 'no version'}, {places.base.hash[:SHOWN_OF_HASH]}"
    validated = f"{state.base_version or 'no version'}, {state.base_hash[:SHOWN_OF_HASH]}"
    moved = f"it is {present} now, and was {validated} then"
    return "stale_base", f"{stored.validated_on} of {state.prompt} is not what this was compared with: {moved}"


def _change(state: ReleaseState, change_id: str, action: str, at: datetime) -> Change:
    return Change(
        id=change_id, action=action, by=state.decided_by or state.asked_by, why=state.reason, evidence=state.evidence, at=at
    )
