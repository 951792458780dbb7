"""What a model answered to a request for better texts, as it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from store.budget_leases import LeaseBalance, LeaseKey


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """One answer, and which of a run's proposals paid for it."""

    round: int
    index: int
    text: str
    cut_off: bool
    """It ended before the model had finished."""
    tokens: int
    cost: float


class ModelAnswerStore(Protocol):
    """What asking models for proposals needs of the store."""

    async def model_answer(self, run_id: str, request_hash: str) -> ModelAnswer | None: ...
    async def keep_model_answer(
        self, run_id: str, request_hash: str, answer: ModelAnswer, lease: tuple[LeaseKey, LeaseBalance] | None = None
    ) -> ModelAnswer: ...
