"""`search`: values of structured factors, suggested from what was measured."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet._frozen import Payload, SpecPart
from ratchet._values import ShortText
from workflows.model.spec.proposers import ModelProposer, PythonProposer

Sampler = Literal["auto", "tpe", "random", "grid"]

MOST_EARLIER_RUNS = 20


class SearchOptimizer(SpecPart):
    """Searches structured factors: numbers, integers, choices, flags, orders, and factors that count only `when` others have
    certain values. Learns from every trial of the run, people's own candidates included, and never tries a configuration
    twice."""

    name: Literal["search"]
    sampler: Sampler = "auto"
    """Where values come from. `auto`, what measures best in `benchmarks/search_quality.py`: for numbers alone, tree-structured
    Parzen estimators first, then a quadratic model of the best region; where there is more than numbers, some random values
    first, then those of which a Gaussian process expects the largest improvement. `tpe`, `random` and `grid` (every
    combination once, in a seeded order; numbers need a `step`) are there for comparison."""
    factors: list[str] | None = None
    """Which factors. Default: every structured factor but those of type json. All others keep the best candidate's values."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 4
    """How many configurations a round tries side by side. What a round learns helps the next one: fewer find more with the
    same number of trials, more find it sooner."""
    warm_start: Annotated[list[Annotated[ShortText, Field(min_length=1)]], Field(max_length=MOST_EARLIER_RUNS)] = Field(
        default_factory=list
    )
    """Ids of earlier runs to learn from: over the same samples, with the same scorers and objective. Factors are matched by
    name; trials with values that are out of range here are left out."""
    proposer: Annotated[ModelProposer | PythonProposer, Field(discriminator="kind")] | None = None
    """Also rewrites the text factors, so that one run treats both: every `rewrite_every`th round asks for new texts of the best
    candidate, whose numbers stay; the rounds between search numbers for its texts. Default: texts stay as they are."""
    rewrite_every: Annotated[int, Field(ge=2, le=1_000)] = 2
    """With a proposer: which rounds rewrite texts. 2: every other one."""


class Importance(Payload):
    """How much of what makes scores differ over the whole space is due to one factor."""

    factor: str
    share: float
    """Of 1, over all factors."""


class Importances(Payload):
    """What mattered, by a functional ANOVA over the trials of the run."""

    factors: tuple[Importance, ...] = ()
    """The most important first."""
    trials: int = 0
    """How many trials that is computed from."""
