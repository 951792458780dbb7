"""Applying what a compression found: every accepted change of a section at once, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, JsonValue

from ratchet._frozen import Payload
from ratchet.prompts.names import joined_path
from ratchet.prompts.overrides import Change, TagState
from ratchet.prompts.prompt_errors import StaleBase
from ratchet.prompts.store import OverrideStore
from ratchet.prompts.template import Descriptor, SectionOverride


class Modification(Payload):
    """A new body for a section, as the report of a compression has it."""

    section_path: Annotated[str, BeforeValidator(joined_path)]
    original_hash: str
    """Of the authored section, which an override has to name; without a prompt, of the factor's value."""
    proposed_body: JsonValue
    """The text; of a tool its description, of examples the list of them."""
    strategies: tuple[str, ...] = ()
    """What made it shorter."""
    token_reduction: int = 0
    baseline_pass_rate: float | None = None
    candidate_pass_rate: float | None = None
    """Of all modifications together; of a single edit alone, see `edits`."""


async def apply_modifications(
    store: OverrideStore,
    prompt: Descriptor,
    modifications: Iterable[Modification | Mapping[str, Any]],
    *,
    tag: str = "stable",
    change: Change | None = None,
    version: str | None = None,
) -> TagState:
    """Put changes in force under a tag that still points to what they were validated on, which `prompt` describes.

    One compare-and-swap. Raises StaleBase when the tag points to something else and InvalidOverride when a change does not fit;
    nothing is changed then.
    """
    base = await store.resolve(prompt.name, tag=tag)
    if (base.template.hash, base.hash) != (prompt.template_hash, prompt.hash):
        states = await store.history(prompt.name, tag) if change is not None else []
        made = next((state for state in states if change is not None and state.change.id == change.id), None)
        if made is None:
            raise StaleBase(prompt.name, tag, prompt.hash, base.state)
        return made
    read = [Modification.model_validate(each) for each in modifications]
    changed = {each.section_path: SectionOverride(expected_hash=each.original_hash, body=each.proposed_body) for each in read}
    overrides = base.state.overrides
    overrides = overrides.model_copy(update={"sections": {**overrides.sections, **changed}})
    expected = base.state.revision
    return await store.store(base.template, overrides, tag=tag, expected=expected, change=change, version=version)
