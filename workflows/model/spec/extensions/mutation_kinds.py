"""Structured mutations of typed parameters, and which failures they answer."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from ratchet._frozen import SpecPart
from ratchet._values import CanonicalValue, ShortText

FactorNamed = Annotated[ShortText, Field(min_length=1)]


class ThresholdMutation(SpecPart):
    """Moves one number by a step, inside its range."""

    kind: Literal["threshold"]
    factor: FactorNamed
    """Which number."""
    delta: Annotated[float, Field(gt=0)] = 0.1
    """How far."""
    direction: Literal["increase", "decrease"] = "increase"
    """Which way."""

    @property
    def factors(self) -> tuple[str, ...]:
        return (self.factor,)


class PriorityMutation(SpecPart):
    """Moves one item of an order to its front or its end, or the last one to the front."""

    kind: Literal["priority"]
    factor: FactorNamed = "skill_priority"
    """Which order."""
    operation: Literal["prioritize", "deprioritize", "rotate"]
    """To the front, to the end, or the last one to the front."""
    skill: CanonicalValue = None
    """The item that is moved; `rotate` needs none."""

    @model_validator(mode="after")
    def _names_what_it_moves(self) -> PriorityMutation:
        if self.operation == "rotate" and self.skill is not None:
            raise ValueError("rotate moves the last item to the front; drop skill, or use prioritize")
        if self.operation != "rotate" and self.skill is None:
            raise ValueError(f"{self.operation} needs the skill that is moved; add skill")
        return self

    @property
    def factors(self) -> tuple[str, ...]:
        return (self.factor,)


class RiskMutation(SpecPart):
    """Sets how much risk is taken, or changes it by so much, inside its range."""

    kind: Literal["risk"]
    factor: FactorNamed = "risk_tolerance"
    """Which number; the ends of its range are very conservative and very aggressive."""
    by: float | None = None
    """The change: -0.25 is a quarter less."""
    to: float | None = None
    """The new value."""

    @model_validator(mode="after")
    def _one_of_both(self) -> RiskMutation:
        if (self.by is None) == (self.to is None):
            raise ValueError("needs exactly one of by (a change) and to (a new value)")
        return self

    @property
    def factors(self) -> tuple[str, ...]:
        return (self.factor,)


class LimitChange(SpecPart):
    """How one limit changes: by a factor, or to a number."""

    times: Annotated[float, Field(gt=0)] | None = None
    """1.5 is half as much again; whole numbers move by at least 1."""
    to: float | None = None
    """The new limit."""

    @model_validator(mode="after")
    def _one_of_both(self) -> LimitChange:
        if (self.times is None) == (self.to is None):
            raise ValueError("needs exactly one of times (a factor) and to (a new limit)")
        return self


class LimitsMutation(SpecPart):
    """Changes limits on how long something is tried, inside their ranges."""

    kind: Literal["limits"]
    changes: Annotated[dict[str, LimitChange], Field(min_length=1, max_length=100)]
    """By factor: `{max_exploration_steps: {times: 1.5}}`."""

    @property
    def factors(self) -> tuple[str, ...]:
        return tuple(self.changes)


Mutation = Annotated[ThresholdMutation | PriorityMutation | RiskMutation | LimitsMutation, Field(discriminator="kind")]


class FailureRule(SpecPart):
    """One line of the table: so many failures of a kind call for a mutation."""

    failure: Annotated[ShortText, Field(min_length=1)]
    """The kind of failure, as the classifier calls it."""
    more_than: Annotated[int, Field(ge=0)]
    """The mutation is proposed when the classifier counted more than this."""
    mutation: Mutation
    """What is proposed."""


FAILURE_TABLE: Final = (
    FailureRule(failure="injury", more_than=2, mutation=ThresholdMutation(kind="threshold", factor="health_threshold")),
    FailureRule(
        failure="starvation",
        more_than=2,
        mutation=ThresholdMutation(kind="threshold", factor="hunger_threshold", direction="decrease"),
    ),
    FailureRule(
        failure="combat_loss",
        more_than=1,
        mutation=PriorityMutation(kind="priority", operation="prioritize", skill="flee"),
    ),
    FailureRule(
        failure="entrapment",
        more_than=1,
        mutation=LimitsMutation(kind="limits", changes={"max_exploration_steps": LimitChange(times=1.5)}),
    ),
)
"""What each kind of failure calls for, unless a spec declares its own table."""

PADDING: Final[tuple[Mutation, ...]] = (
    RiskMutation(kind="risk", by=-0.25),
    RiskMutation(kind="risk", by=0.25),
    PriorityMutation(kind="priority", operation="rotate"),
)
"""What else is tried, unless a spec says otherwise."""
