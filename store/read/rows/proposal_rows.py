"""Rows of proposals: what proposers were asked, what they answered, and what was kept out."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ratchet._frozen import Payload
from store.read.rows.round_rows import Rejection
from workflows.model.spec.factors import Configuration


class ProposerCall(Payload):
    """One request to a model or an activity that proposes, with its answer."""

    asked_of: str | None
    """The model, or the type of the activity."""
    asked: Any
    """The messages of the request, or what the activity was told; long texts are cut, secrets hidden. Null where that was not
    kept, or was removed."""
    answer: str
    cut_off: bool
    """It ended before the model had finished."""
    tokens: int
    cost: float
    answered_at: datetime
    texts_removed: bool


class AskedProposal(Payload):
    """One place of a round for which a proposer was asked, and what became of it."""

    round: int
    index: int
    """Which of the round's requests this is."""
    parent_candidate_id: str | None
    """The candidate to start from; null where the proposer failed to the last."""
    asked_of: str | None
    asked: Any
    """What a plug-in was called with; what models and activities were asked is with each of their `calls`."""
    values: dict[str, Any] | None
    """New values by factor; null where nothing usable came."""
    rationale: str | None
    tokens: int
    cost: float
    calls: tuple[ProposerCall, ...]
    """In the order of their answers. Empty for plug-ins, and for what another run was answered before."""
    candidate_ids: tuple[str, ...]
    """Candidates of the round that are exactly this."""
    rejected: tuple[int, ...]
    """Rejections of the round, by `proposed_index`, that are exactly this."""


class ProposalPage(Payload):
    """What proposers of a run were asked, in the order of the rounds."""

    total: int
    items: tuple[AskedProposal, ...]


class RejectedProposal(Payload):
    """A proposal that was kept out, with its text."""

    rejection: Rejection
    configuration: Configuration | None
    """All of it; None where nobody kept it."""
    values: dict[str, Any] | None
    """What the proposer wrote of it, where a proposer was asked."""
    rationale: str | None
    reference: Configuration
    """Of its first parent that the run knows, else of the baseline."""
    reference_id: str | None
    asked_index: int | None
    """The place among the round's requests that it was asked for in."""
