"""The release that a finished run asks for: of its winner, with its evidence, by the rule of its spec."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from ratchet._formats.canonical import content_hash
from workflows.contracts import Releasing
from workflows.error_reason import reason_of
from workflows.model.run.run_result import OptimizationResult
from workflows.model.spec.release import ReleaseOutcome, ReleaseRequest, ReleaseSpec, ReleaseState
from workflows.model.spec.request import OptimizationRequest
from workflows.policies import ASK_FOR_RELEASE
from workflows.rules.decisions.sentences import NOTHING_HOLDS
from workflows.rules.releases.release_gate import evidence_of, regression, unconfirmed
from workflows.rules.releases.target import ReleaseTarget, released_prompt

ASKED_BY = "ratchet"


async def asked_for_release(request: OptimizationRequest, result: OptimizationResult) -> ReleaseOutcome | None:
    """Ask the prompt's writer, or say why not. Whatever comes of it, the run itself is over."""
    wanted, target = request.release, released_prompt(request)
    if wanted is None or target is None or wanted.mode == "none" or result.status != "completed":
        return None
    reason = _why_not(request, wanted, result)
    if reason is not None:
        return _outcome(target, "not_asked", reason)
    asked = _release_of(request, wanted, target, result)
    try:
        state = await workflow.execute_activity_method(
            Releasing.request_release, asked, summary=f"release {target.prompt}", **ASK_FOR_RELEASE
        )
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        if isinstance(error.cause, ApplicationError):
            return _outcome(target, "failed", reason_of(error))
        told = (
            f"the writer of {target.prompt} has not answered yet; `ratchet prompts releases {target.prompt}` shows what it does"
        )
        return _outcome(target, "unknown", told, asked.release_id)
    return _stands(result.optimization_id, state)


def _why_not(request: OptimizationRequest, wanted: ReleaseSpec, result: OptimizationResult) -> str | None:
    direction, unproven = request.objective.direction, result.unproven
    if unproven is not None:
        shown: str | None = regression(result.confirmation, direction) or f"{NOTHING_HOLDS}: {unproven.why}"
    elif not result.changes:
        return "nothing was better than the baseline"
    elif wanted.mode == "approval":
        return None
    else:
        shown = unconfirmed(result.confirmation) or regression(result.confirmation, direction)
    return None if shown is None else f"{shown}; see `ratchet release {result.optimization_id} --help`"


def _release_of(
    request: OptimizationRequest, wanted: ReleaseSpec, target: ReleaseTarget, result: OptimizationResult
) -> ReleaseRequest:
    execution = workflow.info().first_execution_run_id
    return ReleaseRequest(
        release_id=content_hash([result.optimization_id, execution])[:16],
        prompt=target.prompt,
        kind="canary" if wanted.canary else "promote",
        tag=target.tag,
        run_id=result.optimization_id,
        candidate_id=result.best_candidate_id,
        config_hash=result.best_config_hash,
        approval=wanted.mode == "approval",
        deadline=wanted.deadline,
        remind=wanted.remind,
        approvers=tuple(wanted.approvers),
        by=ASKED_BY,
        evidence=evidence_of(result, request.objective.direction),
    )


def _stands(run_id: str, state: ReleaseState) -> ReleaseOutcome:
    told = state.message
    if state.status == "pending" and state.deadline_at is not None:
        told = f"waits until {state.deadline_at:%Y-%m-%d %H:%M} UTC for `ratchet approve {run_id}`"
    return ReleaseOutcome(
        prompt=state.prompt,
        tag=state.tag,
        status=state.status,
        release_id=state.release_id,
        version=state.version,
        base_version=state.base_version,
        message=told,
    )


def _outcome(target: ReleaseTarget, status: str, message: str, release_id: str | None = None) -> ReleaseOutcome:
    return ReleaseOutcome.model_validate(
        {"prompt": target.prompt, "tag": target.tag, "status": status, "message": message, "release_id": release_id}
    )
