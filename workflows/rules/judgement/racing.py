"""Racing."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.optimizer import Direction
from workflows.model.judgement import JudgementSpec, RaceDecision


def race(
    reference: Sequence[float | None],
    candidate: Sequence[float | None],
    *,
    planned: int,
    spec: JudgementSpec,
    weights: Sequence[float] | None = None,
    direction: Direction = Direction.MAXIMIZE,
    reference_id: str = "the baseline",
    candidates: int = 1,
    min_gain: float = 0.0,
) -> RaceDecision:
    """Whether a trial goes on, after the samples that were measured so far (in the order of the suite)."""
    raise NotImplementedError
