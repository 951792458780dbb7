"""Moving prompts from one store to another: templates, and every tag with its whole history, revision by revision.

What is there already is left as it is, so that a migration that was interrupted goes on when it is asked for again, and one
that is done changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ratchet.prompts.overrides import TagState
from ratchet.prompts.prompt_errors import PromptError
from ratchet.prompts.store import OverrideStore, stored_template


@dataclass(frozen=True, slots=True)
class Migrated:
    """What was moved; what was there already does not count."""

    prompts: int = 0
    """Prompts of which something was moved."""
    templates: int = 0
    changes: int = 0
    """Revisions of tags."""


async def migrate(
    source: OverrideStore, destination: OverrideStore, *, told: Callable[[str, Migrated], None] | None = None
) -> Migrated:
    """Copy every prompt, with tags, versions and history, from one store to another; temporary tags stay where they are.

    `told` is called after each prompt. Raises PromptError when a tag went its own way in the destination, before anything of
    that prompt is written.
    """
    moved = Migrated()
    for name in await source.names():
        templates, changes = await _prompt(name, source, destination)
        moved = Migrated(moved.prompts + bool(templates or changes), moved.templates + templates, moved.changes + changes)
        if told is not None:
            told(name, moved)
    return moved


async def _prompt(name: str, source: OverrideStore, destination: OverrideStore) -> tuple[int, int]:
    missing = {state.tag: await _missing(state, source, destination) for state in await source.backend.tags(name)}
    templates = await _templates(name, source, destination)
    # The state that introduced a version comes before the others that have it, as it once did.
    firsts = {state.version: (state.tag, state.revision) for state in await source.versions(name)}
    there = {state.version for state in await destination.versions(name)}
    changes = 0
    while any(missing.values()):
        ready = [states for states in missing.values() if states and _may_come(states[0], firsts, there)]
        if not ready:
            raise PromptError(f"{name}: its versions and tags do not fit together in the source; nothing more can be moved")
        for states in ready:
            state = states.pop(0)
            if not await destination.backend.swap(state):
                raise PromptError(f"tag {state.tag!r} of {name} moves in the destination while it is migrated; try again")
            there.add(state.version)
            changes += 1
    return templates, changes


def _may_come(state: TagState, firsts: dict[str | None, tuple[str, int]], there: set[str | None]) -> bool:
    return state.version is None or state.version in there or firsts.get(state.version) == (state.tag, state.revision)


async def _missing(newest: TagState, source: OverrideStore, destination: OverrideStore) -> list[TagState]:
    """What the destination lacks of a tag's history."""
    if newest.temporary:
        return []
    states = await source.backend.history(newest.name, newest.tag)
    there = await destination.backend.history(newest.name, newest.tag)
    if there != states[: len(there)]:
        raise PromptError(
            f"tag {newest.tag!r} of {newest.name} has another history in the destination; "
            "delete nothing, but migrate to a store where it is not used yet"
        )
    return states[len(there) :]


async def _templates(name: str, source: OverrideStore, destination: OverrideStore) -> int:
    there = set(await destination.backend.templates(name))
    missing = [template_hash for template_hash in await source.backend.templates(name) if template_hash not in there]
    for template_hash in missing:
        content = await source.backend.template(name, template_hash)
        if content is not None:
            stored_template(name, template_hash, content)  # what is damaged is not passed on
            await destination.backend.keep_template(name, template_hash, content)
    return len(missing)
