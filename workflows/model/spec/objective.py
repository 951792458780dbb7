"""The objective, which turns scores into the one number that a run optimizes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from ratchet._frozen import SpecPart
from ratchet._values import ShortText
from ratchet.optimizer import Direction
from workflows.model.run.numbers import ScoreValue, Weight
from workflows.model.spec.extensions.named_plugins import Description, PluginReference
from workflows.model.spec.extensions.scorer_options import ScoreName

Kind = Literal["mean", "success_rate", "cost_efficiency", "accuracy", "precision", "recall", "f1"]
ObjectiveKind = Literal[
    "mean", "success_rate", "cost_efficiency", "accuracy", "precision", "recall", "f1", "weighted", "python"
]
OVER_LABELS = ("accuracy", "precision", "recall", "f1")
"""Kinds that are computed from the labels of all answers, which scorers of kind classification keep."""


class _Measure(SpecPart):
    metric: ScoreName | None = None
    """Which score counts. Default: the only scorer's."""
    average: Literal["macro", "micro", "weighted"] = "macro"
    """For `precision`, `recall` and `f1`: the mean over labels, the same over all answers together, or the mean over labels
    by how often each is expected."""
    positive: ShortText | None = None
    """For `precision`, `recall` and `f1`: the one label that counts. Default: all of them, averaged."""


class Component(_Measure):
    """One part of a weighted objective."""

    kind: Kind = "mean"
    """How this part is computed."""
    weight: Weight = 1.0
    """Its share; weights need not add up to 1."""


class Objective(_Measure):
    """The one number a run optimizes."""

    kind: ObjectiveKind = "mean"
    """`mean` of the score, `success_rate` (share of passed samples), `cost_efficiency` (successes per 1,000 tokens),
    `accuracy`, `precision`, `recall` or `f1` over the labels of a scorer of kind classification, `weighted` (components), or
    `python` (a function of the trial's statistics)."""
    direction: Direction = Direction.MAXIMIZE
    """Whether higher or lower is better."""
    components: list[Component] = Field(default_factory=list)
    """The parts of a weighted objective."""
    ref: PluginReference | None = None
    """For `python`: a callable that takes the trial's statistics as a mapping and returns a number."""
    version: ShortText | None = None
    """For `python`: names the code's version."""
    description: Description | None = None
    """For `python`: what reports and proposers call it. Default: what its `description()` returns, or else its reference."""
    worst: ScoreValue | None = None
    """What a sample scores that the candidate failed. Default: 0 when maximizing, 1 when minimizing."""

    @model_validator(mode="before")
    @classmethod
    def _bare_metric(cls, value: Any) -> Any:
        return {"metric": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _complete(self) -> Objective:
        if (self.kind == "weighted") != bool(self.components):
            raise ValueError("components belong to kind weighted, and kind weighted needs them")
        if (self.kind == "python") != (self.ref is not None):
            raise ValueError("ref belongs to kind python, and kind python needs it")
        return self

    @property
    def worst_score(self) -> float:
        if self.worst is not None:
            return self.worst
        return 0.0 if self.direction is Direction.MAXIMIZE else 1.0
