"""Candidates of people: queued by the `propose` update, tried in the next round."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.exceptions import ApplicationError

from ratchet._formats.canonical import NotCanonical, canonical_json
from ratchet.optimizer import CandidateProposal
from workflows.model.failures import INVALID_REQUEST
from workflows.model.run.contract import Pending
from workflows.rules.proposals.validation import Refusal, examine
from workflows.rules.spec.prompt_factors import is_read
from workflows.run.state import RunState

MOST_WAITING, LARGEST_WAITING = 100, 256 * 1024
"""Proposals of people that wait for the next round, and their bytes in all."""


def own_proposal(state: RunState, pending: Pending) -> CandidateProposal:
    """What a person asked for, as a proposal."""
    configuration = {**state.request.baseline, **pending.configuration}
    return CandidateProposal(configuration=configuration, rationale=pending.rationale, extra={"origin": "person"})


def refuse_inadmissible(state: RunState, pending: Pending) -> None:
    """Tell whoever asks at once what could never be tried."""
    _refuse_too_many([*state.waiting, pending])
    if not is_read(state.request):
        told = "the run has not read its prompt yet, whose sections are factors; send this one again when it has begun"
        raise ApplicationError(told, type=INVALID_REQUEST)
    judged = examine(own_proposal(state, pending), state.request.factors_in_play, state.known(), ())
    if isinstance(judged, Refusal):
        raise ApplicationError(f"{judged.reason_code}: {judged.message}", type=INVALID_REQUEST)


def _refuse_too_many(waiting: Sequence[Pending]) -> None:
    """What waits is carried into the next execution, so it must stay small."""
    try:
        size = sum(len(canonical_json(pending.configuration).encode()) for pending in waiting)
    except NotCanonical:
        return  # refused for that, by name
    if len(waiting) > MOST_WAITING or size > LARGEST_WAITING:
        message = f"{len(waiting) - 1} proposals are waiting already; send this one again when a round has taken them up"
        raise ApplicationError(message, type=INVALID_REQUEST)
