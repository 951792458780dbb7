"""Candidates' prompts in the override store, for targets that run elsewhere and resolve the prompt themselves.

The tag is `context.overrides_tag`, the hash of the overlay, so it never moves to another content. It is marked as temporary and
as its run's, by which the cleanup removes it when the run is over.
"""

from __future__ import annotations

from contextlib import suppress

from temporalio.exceptions import ApplicationError

from activities.releases.override_stores import Overrides
from ratchet.prompts import Change, OverrideStore, PromptError, StaleBase, TagState, prompt_part
from ratchet.prompts.template import PromptTemplate
from workflows.model.failures import PERMANENT_TARGET_ERROR
from workflows.model.suite import EvaluationSuite
from workflows.rules.overlay import Overlay

MOST_REMEMBERED = 10_000
ATTEMPTS = 5
"""Of several workers that put the same tag at once, all but one find it there."""


class TemporaryTags:
    """Puts candidates where their targets find them."""

    def __init__(self, overrides: Overrides) -> None:
        self._overrides = overrides
        self._put: dict[tuple[str, str], None] = {}

    async def put(self, run_id: str, suite: EvaluationSuite, overlay: Overlay) -> None:
        """Put the overlay's prompt under its tag, unless this worker did so before."""
        key = (run_id, overlay.config_hash)
        if overlay.template is None or not suite.publishes_prompt or key in self._put:
            return
        try:
            await self._put_once(run_id, overlay, overlay.template)
        except PromptError as error:
            why = f"the store of prompts takes no candidates: {error}; mend it, or set prompt.publish: false"
            raise ApplicationError(why, type=PERMANENT_TARGET_ERROR, non_retryable=True) from None
        while len(self._put) >= MOST_REMEMBERED:
            del self._put[next(iter(self._put))]
        self._put[key] = None

    async def _put_once(self, run_id: str, overlay: Overlay, template: PromptTemplate) -> None:
        store = await self._overrides.store()
        for _ in range(ATTEMPTS - 1):
            with suppress(StaleBase):
                await _put(store, run_id, overlay, template)
                return
        await _put(store, run_id, overlay, template)


async def _put(store: OverrideStore, run_id: str, overlay: Overlay, template: PromptTemplate) -> None:
    there = await store.current(template.name, overlay.config_hash)
    if there is not None and _serves(there, run_id, overlay, template):
        return
    await store.store(
        template,
        template.overrides_of(prompt_part(dict(overlay.configuration))),
        tag=overlay.config_hash,
        expected=None if there is None else there.revision,
        change=Change(action="candidate", by="ratchet", why=f"under evaluation in {run_id}"),
        temporary=True,
        owner=run_id,
        frozen_may_change=True,  # an earlier run may have had another template
    )


def _serves(there: TagState, run_id: str, overlay: Overlay, template: PromptTemplate) -> bool:
    """Whether the tag holds this candidate for as long as this run needs it."""
    holds_it = there.config_hash == overlay.prompt_hash and there.template_hash == template.hash
    return holds_it and (not there.temporary or there.owner == run_id)
