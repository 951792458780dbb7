"""Scorers, which turn an output into named scores, and the objective, which turns scores into one number."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from ratchet.optimizer import Direction
from workflows.model.frozen import SpecPart
from workflows.model.target import PluginReference
from workflows.model.values import CanonicalMapping, ShortText, Text

ScoreName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.-]{0,63}$")]


class _Scorer(SpecPart):
    name: ScoreName | None = None
    """The score's name, by which the objective refers to it. Default: the kind."""
    threshold: float = 0.5
    """A sample counts as passed when its score reaches this."""

    @property
    def score_name(self) -> str:
        return self.name or str(getattr(self, "kind", ""))


class ExactScorer(_Scorer):
    """1 when the output equals what is expected, else 0."""

    kind: Literal["exact"]
    ignore_case: bool = False
    """Compare without regard to case."""
    strip: bool = True
    """Ignore white space around text."""


class ContainsScorer(_Scorer):
    """1 when the output contains the text (or every text) that is expected, else 0."""

    kind: Literal["contains"]
    values: list[Text] | None = None
    """What must be contained. Default: the sample's `expected`, a text or a list of texts."""
    mode: Literal["all", "any"] = "all"
    """Whether all of several texts must be there, or any."""
    ignore_case: bool = False
    """Compare without regard to case."""


class RegexScorer(_Scorer):
    """1 when the pattern is found in the output, else 0."""

    kind: Literal["regex"]
    pattern: Text | None = None
    """The regular expression. Default: the sample's `expected`."""
    full_match: bool = False
    """Demand that the whole output matches."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"is not a regular expression: {error}") from None
        return value


class NumericScorer(_Scorer):
    """1 when the output is a number within tolerance of what is expected, falling linearly to 0 at `zero_at`."""

    kind: Literal["numeric"]
    absolute: Annotated[float, Field(ge=0)] = 0.0
    """Absolute tolerance."""
    relative: Annotated[float, Field(ge=0)] = 1e-9
    """Tolerance relative to the expected number."""
    zero_at: Annotated[float, Field(gt=0)] | None = None
    """The distance at which the score reaches 0. Default: a miss is 0 at once."""


class JsonScorer(_Scorer):
    """1 when the output is valid JSON and satisfies the schema, if one is given, else 0."""

    kind: Literal["json"]
    json_schema: Annotated[CanonicalMapping | None, Field(alias="schema")] = None
    """The JSON Schema that the output must satisfy."""

    model_config = SpecPart.model_config | {"populate_by_name": True, "serialize_by_alias": True}


class PythonScorer(_Scorer):
    """A Python callable `(output, sample) -> float | bool | Score | list[Score]`, sync or async."""

    kind: Literal["python"]
    ref: PluginReference
    """`package.module:attribute`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""


Scorer = Annotated[
    ExactScorer | ContainsScorer | RegexScorer | NumericScorer | JsonScorer | PythonScorer, Field(discriminator="kind")
]

ObjectiveKind = Literal["mean", "success_rate", "cost_efficiency", "weighted", "python"]


class Component(SpecPart):
    """One part of a weighted objective."""

    kind: Literal["mean", "success_rate", "cost_efficiency"] = "mean"
    """How this part is computed."""
    metric: ScoreName | None = None
    """Which score it is computed from. Default: the only scorer's."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Its share; weights need not add up to 1."""


class Objective(SpecPart):
    """The one number a run optimizes."""

    metric: ScoreName | None = None
    """Which score counts. Default: the only scorer's."""
    kind: ObjectiveKind = "mean"
    """`mean` of the score, `success_rate` (share of passed samples), `cost_efficiency` (successes per 1,000 tokens),
    `weighted` (components), or `python` (a function of the trial's statistics)."""
    direction: Direction = Direction.MAXIMIZE
    """Whether higher or lower is better."""
    components: list[Component] = Field(default_factory=list)
    """The parts of a weighted objective."""
    ref: PluginReference | None = None
    """For `python`: a callable that takes the trial's statistics as a mapping and returns a number."""
    version: ShortText | None = None
    """For `python`: names the code's version."""
    worst: float | None = None
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
