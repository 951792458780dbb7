"""Whether the winner of a run can be released at all, asked before anything is paid for."""

from __future__ import annotations

from activities.releases.override_stores import Overrides
from activities.releases.tags import TagMoves
from ratchet.prompts.prompt_errors import PromptError
from ratchet.prompts.template import effective_hash
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.releases.target import released_part, released_prompt


async def unreleasable(request: OptimizationRequest, overrides: Overrides) -> str | None:
    """Why a release would be refused at the end, as things stand now; None when nothing speaks against it."""
    target = released_prompt(request)
    if target is None or request.release is None or request.release.mode == "none":
        return None
    try:
        present = await TagMoves(overrides).at(target.prompt, target.tag)
    except PromptError as error:
        return f"release.prompt: {error}"
    if present is None:
        if request.prompt is None or request.prompt.name is None:
            return None
        return f"release.tag: {target.prompt} has no tag {target.tag!r}; see `ratchet prompts tags {target.prompt}`"
    if present.hash == effective_hash(released_part(request, request.baseline)):
        return None
    is_at = f"{target.tag} of {target.prompt} is {present.state.version or 'something else'}"
    return (
        f"release: {is_at}, and not what this run begins with, so its winner could not be released; begin with it "
        f"(prompt: {{name: {target.prompt}, tag: {target.tag}}}), or leave release out"
    )
