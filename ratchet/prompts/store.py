"""The one contract of override stores, whatever keeps them.

Writing is strict: names, hashes, frozen parts and values are checked before anything is touched, and a tag moves only by
compare-and-swap. Reading never falls back to anything silently.
"""

from __future__ import annotations

from types import TracebackType

from pydantic import JsonValue, ValidationError

from ratchet.prompts.names import SOURCE, checked_name, checked_tag, checked_version, is_version, version_order
from ratchet.prompts.overrides import Backend, Change, Difference, Resolved, TagState
from ratchet.prompts.prompt_errors import (
    Damaged,
    FrozenChanged,
    InvalidOverride,
    PromptError,
    StaleBase,
    StaleTag,
    UnknownPrompt,
    UnknownTag,
    UnknownVersion,
)
from ratchet.prompts.template import Overrides, PromptTemplate, effective_hash

FIRST_VERSION = "1.0.0"
MOST_TEMPLATES_AT_HAND = 256


class OverrideStore:
    """Prompts with their tags, versions and histories."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._templates: dict[str, PromptTemplate] = {}

    async def __aenter__(self) -> OverrideStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.backend.close()

    async def seed(self, template: PromptTemplate, *, tag: str = "stable", change: Change | None = None) -> TagState:
        """Put a template in force under a tag that does not exist yet; one that does is left as it is.

        The first seed of a prompt is its version 1.0.0. Raises StaleTag when the tag stands for another template.
        """
        name = checked_name(template.name)
        current = await self.backend.current(name, checked_tag(tag))
        if current is None or current.deleted:
            version = None if await self.backend.versions(name) else FIRST_VERSION
            change = change or Change(action="seed")
            try:
                return await self.store(template, Overrides(), tag=tag, expected=None, change=change, version=version)
            except StaleBase as lost:
                if lost.current is None or lost.current.deleted:
                    raise
                current = lost.current
        self._check_template(current, template)
        await self._keep(template)
        return current

    async def store(
        self,
        template: PromptTemplate,
        overrides: Overrides,
        *,
        tag: str,
        expected: int | None,
        change: Change | None = None,
        version: str | None = None,
        parent: str | None = None,
        temporary: bool = False,
        owner: str | None = None,
        frozen_may_change: bool = False,
    ) -> TagState:
        """Move a tag to a template with these overrides, if it is at the expected revision; None: if it does not exist.

        One step, all or nothing. Raises StaleBase when the tag is elsewhere, InvalidOverride, FrozenChanged, VersionTaken. A
        temporary tag stays one, is no version, and leaves nothing behind when it is deleted.
        """
        name, tag = checked_name(template.name), checked_tag(tag)
        configuration = template.configuration(overrides)
        current = await self.backend.current(name, tag)
        change = change or Change()
        state = TagState(
            name=name,
            tag=tag,
            revision=_next_revision(current),
            template_hash=template.hash,
            frozen_hash=template.frozen_hash,
            config_hash=effective_hash(configuration),
            overrides=overrides,
            version=version,
            parent=parent if parent is not None or current is None else current.version,
            temporary=temporary,
            owner=owner,
            change=change,
        )
        if current is not None and not frozen_may_change and current.frozen_hash != state.frozen_hash:
            made = await self._made_before(current, change)
            if made is not None:
                return made
            raise FrozenChanged(
                f"{name}: the frozen parts of this template are not those of tag {tag!r}; "
                "sections that accept no overrides, tools' contracts and parameters' ranges change only on purpose"
            )
        if current is None or current.template_hash != template.hash:
            await self._keep(template)
        return await self._swapped(current, state, expected)

    async def copy_tag(
        self, name: str, *, source: str, tag: str, expected: int | None, change: Change | None = None
    ) -> TagState:
        """Move a tag to where another one is, or to a version: a canary that proved itself, a rollback."""
        found = await self._state(checked_name(name), source)
        current = await self.backend.current(name, checked_tag(tag))
        state = found.model_copy(
            update={
                "tag": tag,
                "revision": _next_revision(current),
                "change": change or Change(action="copy"),
                "temporary": False,
                "owner": None,
            }
        )
        return await self._swapped(current, state, expected)

    async def delete(self, name: str, *, tag: str, expected: int, change: Change | None = None) -> TagState | None:
        """Remove a tag that is at the expected revision. Its history stays, unless it is temporary. None: there is none."""
        current = await self.backend.current(checked_name(name), checked_tag(tag))
        if current is None or current.deleted:
            return None
        update = {"revision": current.revision + 1, "change": change or Change(action="delete"), "deleted": True}
        removed = current.model_copy(update=update)
        if not current.temporary:
            return await self._swapped(current, removed, expected)
        if current.revision == expected and await self.backend.purge(current):
            return removed
        raise StaleBase(name, tag, expected, await self.backend.current(name, tag))

    async def resolve(self, name: str, *, tag: str, template: PromptTemplate | None = None) -> Resolved:
        """What a tag, or a version such as 1.2.0, puts in force.

        Given the template of one's own code, it raises StaleTag when the tag was made for another one.
        """
        state = await self._state(checked_name(name), tag)
        if template is not None:
            self._check_template(state, template)
        return await self._resolved(state, template)

    async def diff(self, name: str, before: str, after: str) -> list[Difference]:
        """The factors that differ between two tags, versions, or `source`: the template without overrides."""
        old, new = await self._in_force(checked_name(name), before, after), await self._in_force(name, after, before)
        return [
            Difference(factor, old.get(factor), new.get(factor))
            for factor in dict.fromkeys((*old, *new))
            if old.get(factor) != new.get(factor)
        ]

    async def current(self, name: str, tag: str) -> TagState | None:
        """Where a tag is; None when there is none. Only the deletion of a tag tells its last revision: see `history`."""
        state = await self.backend.current(checked_name(name), checked_tag(tag))
        return None if state is None or state.deleted else state

    async def list_tags(self, name: str) -> list[TagState]:
        """The prompt's tags, by name."""
        states = await self.backend.tags(checked_name(name))
        return sorted((state for state in states if not state.deleted), key=lambda state: state.tag)

    async def history(self, name: str, tag: str) -> list[TagState]:
        """Every state the tag ever had, the oldest first; deletions are states, too."""
        return await self.backend.history(checked_name(name), checked_tag(tag))

    async def versions(self, name: str) -> list[TagState]:
        """Every version, as the change that introduced it; in the order of their numbers."""
        states = await self.backend.versions(checked_name(name))
        return sorted(states, key=lambda state: version_order(state.version or FIRST_VERSION))

    async def names(self) -> list[str]:
        """Every prompt that the store knows."""
        return sorted(await self.backend.names())

    async def _keep(self, template: PromptTemplate) -> None:
        await self.backend.keep_template(template.name, template.hash, template.model_dump_json(by_alias=True))

    async def _swapped(self, current: TagState | None, state: TagState, expected: int | None) -> TagState:
        present = current if current is not None and not current.deleted else None
        if current is not None and current.temporary != state.temporary:
            kind = "temporary" if current.temporary else "no temporary one"
            raise PromptError(f"tag {state.tag!r} of {state.name} is {kind}, and stays so; use another tag")
        if state.temporary and state.version is not None:
            raise PromptError(f"tag {state.tag!r} of {state.name} is temporary, so it cannot be a version; use another tag")
        as_expected = present is None if expected is None else present is not None and present.revision == expected
        if as_expected and await self.backend.swap(state):
            return state
        if as_expected:
            current = await self.backend.current(state.name, state.tag)
        made = await self._made_before(current, state.change)
        if made is not None:
            return made
        raise StaleBase(state.name, state.tag, expected, current)

    async def _made_before(self, current: TagState | None, change: Change) -> TagState | None:
        """The state that this very change made, when it is asked for again."""
        if current is None or current.change.id == change.id:
            return current
        states = await self.backend.history(current.name, current.tag)
        return next((state for state in states if state.change.id == change.id), None)

    async def _state(self, name: str, reference: str) -> TagState:
        if is_version(reference):
            return await self._version(name, checked_version(reference))
        state = await self.backend.current(name, checked_tag(reference))
        if state is not None and not state.deleted:
            return state
        tags = [other.tag for other in await self.list_tags(name)]
        if not tags and state is None:
            raise UnknownPrompt(f"the store has no prompt {name}; seed it, or check RATCHET_OVERRIDES")
        raise UnknownTag(f"{name} has no tag {reference!r}; it has {', '.join(tags) or 'none'}")

    async def _version(self, name: str, version: str) -> TagState:
        versions = await self.versions(name)
        for state in versions:
            if state.version == version:
                return state
        known = ", ".join(state.version or "" for state in versions)
        raise UnknownVersion(f"{name} has no version {version}; it has {known or 'none'}")

    async def _in_force(self, name: str, reference: str, other: str) -> dict[str, JsonValue]:
        if reference != SOURCE:
            return (await self._resolved(await self._state(name, reference))).configuration
        state = await self._state(name, "stable" if other == SOURCE else other)
        return (await self._template(state)).configuration()

    async def _resolved(self, state: TagState, template: PromptTemplate | None = None) -> Resolved:
        template = template or await self._template(state)
        try:
            configuration = template.configuration(state.overrides)
        except InvalidOverride as error:
            raise Damaged(f"tag {state.tag!r} of {state.name} at revision {state.revision} is damaged: {error}") from None
        if effective_hash(configuration) != state.config_hash:
            raise Damaged(
                f"tag {state.tag!r} of {state.name} at revision {state.revision} is damaged: "
                f"it should put {state.config_hash[:12]}… in force, but puts {effective_hash(configuration)[:12]}…"
            )
        return Resolved(template, state, configuration)

    async def _template(self, state: TagState) -> PromptTemplate:
        known = self._templates.get(state.template_hash)
        if known is not None and known.name == state.name:
            return known
        content = await self.backend.template(state.name, state.template_hash)
        if content is None:
            raise Damaged(f"the store lost template {state.template_hash[:12]}… of {state.name}; seed it again")
        template = stored_template(state.name, state.template_hash, content)
        if len(self._templates) >= MOST_TEMPLATES_AT_HAND:
            self._templates.clear()
        self._templates[state.template_hash] = template
        return template

    @staticmethod
    def _check_template(state: TagState, template: PromptTemplate) -> None:
        if state.template_hash != template.hash:
            raise StaleTag(
                f"tag {state.tag!r} of {state.name} was made for template {state.template_hash[:12]}…, "
                f"this one is {template.hash[:12]}…; store the template anew under the tag, or use the one it was made for"
            )


def stored_template(name: str, template_hash: str, content: str) -> PromptTemplate:
    """A template as it was kept, checked against its hash."""
    try:
        template = PromptTemplate.model_validate_json(content)
    except ValidationError as error:
        raise Damaged(f"template {template_hash[:12]}… of {name} cannot be read: {error.errors()[0]['msg']}") from None
    if template.hash != template_hash or template.name != name:
        raise Damaged(f"template {template_hash[:12]}… of {name} is not what was stored under that hash")
    return template


def _next_revision(current: TagState | None) -> int:
    return 1 if current is None else current.revision + 1
