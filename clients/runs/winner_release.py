"""Releasing the winner of a finished run: what command line and HTTP share of asking for it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from workflows.model.run.run_result import OptimizationResult
from workflows.model.spec.prompt import STABLE
from workflows.model.spec.release import ReleaseRequest
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.decisions.sentences import NOTHING_HOLDS
from workflows.rules.releases.release_gate import evidence_of, regression
from workflows.rules.releases.target import released_prompt


class NotReleased(Exception):
    """Why a winner is not released."""


class PromptMissing(NotReleased):
    """Nobody says which prompt the winner becomes."""


class ShownWorse(NotReleased):
    """The confirmation speaks against it, and nobody insists."""

    def __init__(self, shown: str) -> None:
        super().__init__(shown)
        self.shown = shown


@dataclass(frozen=True)
class ReleaseOptions:
    """How something is released; what is left out is the spec's."""

    by: str
    prompt: str | None = None
    tag: str | None = None
    canary: bool = False
    """Whether the tag `canary` moves, and the real one stays where it is."""
    force: bool = False
    """Whether a winner is released although its confirmation speaks against it."""
    reason: str = ""


def winner_release(request: OptimizationRequest, result: OptimizationResult, options: ReleaseOptions) -> ReleaseRequest:
    """What is asked of the prompt's one writer. Raises NotReleased where the run has nothing to release, or should not; and
    pydantic's error where an option cannot be."""
    refuse_unproven(request, result, force=options.force)
    run_id, unproven, named = result.optimization_id, result.unproven, released_prompt(request)
    prompt = options.prompt or (named.prompt if named else None)
    if prompt is None:
        raise PromptMissing(f"the spec of {run_id} names no prompt")
    return ReleaseRequest.model_validate(
        {
            "release_id": uuid.uuid4().hex[:16],
            "prompt": prompt,
            "kind": "canary" if options.canary else "promote",
            "tag": options.tag or (named.tag if named else STABLE),
            "run_id": run_id,
            "candidate_id": unproven.candidate_id if unproven else result.best_candidate_id,
            "config_hash": unproven.config_hash if unproven else result.best_config_hash,
            "by": options.by,
            "reason": options.reason,
            "evidence": evidence_of(result, request.objective.direction),
        }
    )


def refuse_unproven(request: OptimizationRequest, result: OptimizationResult, *, force: bool) -> None:
    """Raise where a run has nothing to ship, or where its confirmation speaks against it and nobody insists."""
    run_id, unproven = result.optimization_id, result.unproven
    if result.best_config_hash is None:
        raise NotReleased(f"{run_id} found nothing that works; `ratchet report {run_id}` shows why")
    if unproven is None and not result.changes:
        raise NotReleased(f"{run_id} found nothing better than its baseline, so there is nothing to release")
    shown = regression(result.confirmation, request.objective.direction)
    if shown is None and unproven is not None:
        shown = f"{NOTHING_HOLDS}; {unproven.candidate_id}: {unproven.why}"
    if shown is not None and not force:
        raise ShownWorse(shown)
