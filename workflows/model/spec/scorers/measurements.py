"""Scorers of what an answer took."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from workflows.model.spec.extensions.scorer_options import Scorer


class MeasurementScorer(Scorer):
    """A measured number, or whether it keeps to a limit."""

    at_most: Annotated[float, Field(ge=0)] | None = None
    """Score 1 up to this, else 0. Without it, the score is the number itself, every answer passes, and an objective over it
    says `direction: minimize` and its `worst`."""

    @model_validator(mode="after")
    def _only_limits_turn_around(self) -> MeasurementScorer:
        if self.negate and self.at_most is None:
            raise ValueError("not: needs at_most; a bare number has no opposite")
        return self

    @property
    def gives_a_number(self) -> bool:
        return self.at_most is None


class LatencyScorer(MeasurementScorer):
    """How long the target took, in milliseconds."""

    graded_by = ".matches:latency"

    kind: Literal["latency"]
    until: Literal["end", "first_token"] = "end"
    """Until the answer was complete, or until its first token (a chat target needs `stream: true` for that)."""

    @property
    def needs_latency(self) -> bool:
        return True

    @property
    def needs_first_token(self) -> bool:
        return self.until == "first_token"


class CostScorer(MeasurementScorer):
    """What the target's answer cost, in the currency of the prices; what scoring it cost does not count."""

    graded_by = ".matches:cost"
    depends_on_prices = True

    kind: Literal["cost"]


class TokensScorer(MeasurementScorer):
    """How many tokens the target's answer took, in and out; what scoring it took does not count."""

    graded_by = ".matches:tokens"

    kind: Literal["tokens"]
