"""What becomes of a proposal: a candidate that is let in, or a rejection that says why not."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from ratchet.optimizer import Part
from workflows.model.spec.factors import Configuration


class ReasonCode(StrEnum):
    """Why a proposal was kept out."""

    INVALID_SHAPE = "invalid_shape"
    MISSING_FACTOR = "missing_factor"
    UNKNOWN_FACTOR = "unknown_factor"
    FROZEN_FACTOR_CHANGED = "frozen_factor_changed"
    OUT_OF_RANGE = "out_of_range"
    EMPTY_VALUE = "empty_value"
    TOO_LONG = "too_long"
    PLACEHOLDER_LOST = "placeholder_lost"
    UNKNOWN_PARENT = "unknown_parent"
    DUPLICATE = "duplicate"
    NO_CHANGE = "no_change"
    NOT_SMALLER = "not_smaller"
    STALE_BASE = "stale_base"
    BUDGET = "budget"
    PROPOSAL_FAILED = "proposal_failed"
    """Nobody wrote it: the proposer failed, and went on failing when it was asked again."""


class Candidate(Payload):
    """A configuration that was let in, and where it came from."""

    candidate_id: str
    config_hash: str
    """Also the trial's `mask_id`: the overlay it runs against."""
    configuration: Configuration
    round: int
    index: int
    """Its place among the round's proposals."""
    parent_candidate_ids: tuple[str, ...] = ()
    rationale: str | None = None
    first_replicate: int = 0
    """Above 0 when the same configuration is tried again: replicates are distinct answers, never copies."""
    part: Part | None = None
    """It is measured on these samples only, to learn from it; `count` is known."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)


class Rejection(Payload):
    """A proposal that was kept out, before anything was spent on it."""

    round: int
    proposed_index: int
    reason_code: ReasonCode
    message: str
    config_hash: str | None = None
    parent_candidate_ids: tuple[str, ...] = ()
    proposed_hash: str | None = None
    """Of the whole configuration as it was proposed, by which its text is found; None where it cannot be written as JSON."""
