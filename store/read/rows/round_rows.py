"""Rows of rounds: what each decided, what it kept out, and what its proposals took."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from ratchet._frozen import Payload
from workflows.model.run.candidates import ReasonCode


class RoundRow(Payload):
    """A decided round. `record` is the RoundRecord in full, but for its rejections."""

    round: int
    best_candidate_id: str | None
    best_score: float | None
    best_so_far_id: str | None
    best_so_far: float | None
    stop_reason: str | None
    stopped: bool
    extra: dict[str, Any]
    record: dict[str, Any]
    decided_at: datetime


class RoundPage(Payload):
    total: int
    items: tuple[RoundRow, ...]


class Rejection(Payload):
    """A proposal that was kept out before anything was spent on it."""

    round: int
    proposed_index: int
    reason_code: ReasonCode
    message: str
    config_hash: str | None = Field(serialization_alias="mask_id")
    parent_candidate_ids: tuple[str, ...]


class RejectionPage(Payload):
    """Some of a run's rejections, in their order."""

    total: int
    items: tuple[Rejection, ...]


class ProposalCost(Payload):
    """What the proposals of a round took."""

    round: int
    tokens: int = 0
    cost: float = 0.0
