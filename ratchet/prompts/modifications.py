"""Applying what a compression found: every accepted change of a section at once, or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ratchet.prompts.overrides import Change, Resolved, TagState
from ratchet.prompts.store import OverrideStore
from ratchet.prompts.template import SectionOverride


@dataclass(frozen=True, slots=True)
class Modification:
    """A new body for a section."""

    section_path: str
    original_hash: str
    """Of the authored section that it was made for, as the descriptor tells it."""
    proposed_body: str


async def apply_modifications(
    store: OverrideStore, base: Resolved, modifications: Iterable[Modification], *, change: Change | None = None
) -> TagState:
    """Put changes in force on top of the base that they were validated on, if its tag is still there.

    One compare-and-swap. Raises StaleBase when the tag has moved and InvalidOverride when a change does not fit; nothing is
    changed then.
    """
    changed = {
        each.section_path: SectionOverride(expected_hash=each.original_hash, body=each.proposed_body) for each in modifications
    }
    overrides = base.state.overrides
    overrides = overrides.model_copy(update={"sections": {**overrides.sections, **changed}})
    return await store.store(base.template, overrides, tag=base.state.tag, expected=base.state.revision, change=change)
