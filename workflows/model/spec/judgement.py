"""Judgement: what a comparison must show, the evidence it gives, and the verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ratchet._frozen import Payload, SpecPart
from ratchet._values import ShortText
from ratchet.optimizer import Direction
from workflows.model.run.numbers import Distance, Positive
from workflows.model.spec.extensions.scorer_options import ScoreName

MOST_MUST_PASS = 1_000
"""Samples that a spec may name as must-pass."""

_CONSTRAINT = re.compile(
    r"^\s*(?:(?P<statistic>mean|total|max|p\d{1,2})\s+)?(?P<measure>[A-Za-z_][\w.-]{0,63})\s*(?P<relation><=|>=)\s*"
    r"(?P<limit>[+-]?\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?)\s*(?P<baseline>x\s*baseline|\*\s*baseline|×\s*baseline)?\s*$"
)


class Verdict(StrEnum):
    """What a comparison showed."""

    BETTER = "better"
    NOT_WORSE = "not_worse"
    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"


class MustPass(SpecPart):
    """Samples that every candidate must pass in all its replicates, whatever the mean says."""

    samples: Annotated[list[ShortText], Field(max_length=MOST_MUST_PASS)] = Field(default_factory=list)
    """Their ids."""
    tags: Annotated[list[ShortText], Field(max_length=100)] = Field(default_factory=list)
    """Every sample that has one of these tags."""
    flake_rate: Annotated[float, Field(ge=0, lt=0.5)] | Literal["measured"] = 0.0
    """How often a sound configuration fails such a sample by bad luck. 0: one failure is one too many. A rate: failures are
    tolerated as far as it explains them. `measured`: the baseline's rate on these samples."""

    @model_validator(mode="after")
    def _names_something(self) -> MustPass:
        if not self.samples and not self.tags:
            raise ValueError("names no sample; give samples (ids) or tags")
        return self


class Constraint(SpecPart):
    """A limit on every candidate: `cost <= 0.002`, `p95 latency_ms <= 800`, `tokens <= 1.1 x baseline`."""

    measure: Literal["cost", "tokens", "latency_ms", "ttft_ms"] | ScoreName
    """What is limited: per answer, or the name of a score."""
    statistic: Annotated[str, Field(pattern=r"^(mean|total|max|p\d{1,2})$")] = "mean"
    """`mean`, `total`, `max`, or a percentile such as `p95`, over all answers of a trial."""
    at_most: float | None = None
    """The largest value allowed."""
    at_least: float | None = None
    """The smallest value allowed."""
    of_baseline: bool = False
    """The limit is a multiple of the baseline's own value."""

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        found = _CONSTRAINT.match(value)
        if found is None:
            raise ValueError(f"{value!r} is no constraint; write for example 'cost <= 0.002' or 'p95 latency_ms <= 800'")
        bound = "at_most" if found["relation"] == "<=" else "at_least"
        measure = {"latency": "latency_ms", "ttft": "ttft_ms"}.get(found["measure"], found["measure"])
        return {
            "measure": measure,
            "statistic": found["statistic"] or "mean",
            bound: float(found["limit"].replace("_", "")),
            "of_baseline": found["baseline"] is not None,
        }

    @model_validator(mode="after")
    def _limits_one_side(self) -> Constraint:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("needs one limit: at_most or at_least")
        return self

    @property
    def words(self) -> str:
        """`p95 latency_ms <= 800`"""
        relation, limit = ("<=", self.at_most) if self.at_most is not None else (">=", self.at_least)
        return f"{self.statistic} {self.measure} {relation} {limit:g}{' x baseline' if self.of_baseline else ''}"


class JudgedObjective(SpecPart):
    """One of several objectives: judged by itself, and a coordinate of the Pareto front."""

    measure: Literal["cost", "tokens", "latency_ms", "ttft_ms"] | ScoreName
    """The name of a score, or what an answer took."""
    direction: Direction = Direction.MAXIMIZE
    """Whether higher or lower is better."""
    margin: Distance = 0.05
    """The largest loss that still counts as not worse, in units of the measure."""


class Racing(SpecPart):
    """Candidates are measured block by block on the samples of the candidate they are compared with, and stop early when more
    samples would not change the decision."""

    block: Annotated[int, Field(ge=4, le=10_000)] = 16
    """Samples between two looks."""
    error_rate: Annotated[float, Field(gt=0, le=0.2)] = 0.02
    """How many decisions may differ from those that full evaluation takes, at most, over all looks together."""
    wins: bool = True
    """Whether a clear win stops a trial too. Off: winners are measured in full, so that their score is unbiased."""


class NoiseFirst(SpecPart):
    """Before the search the baseline is answered again, to learn how noisy the measure is and what the budget can detect."""

    samples: Annotated[int, Field(ge=4, le=10_000)] = 30
    """On how many samples."""
    replicates: Annotated[int, Field(ge=2, le=100)] = 3
    """How often each."""
    power: Annotated[float, Field(gt=0.5, lt=1)] = 0.8
    """How sure a difference of the wanted size shall be found."""
    most_replicates: Annotated[int, Field(ge=1, le=100)] = 5
    """`replicates: auto` takes no more."""


class JudgementSpec(SpecPart):
    """How candidates are judged."""

    rule: Literal["improvement", "non_inferiority", "strict"] = "improvement"
    """What is asked of a candidate. `improvement`: better, by a paired one-sided test. `non_inferiority`: not worse by more
    than `margin` (the default with `compress`). `strict`: every sample that the baseline passes in all replicates is passed in
    all replicates again, which rejects most candidates that are as good; the evidence says how many."""
    test: Literal["paired", "mann_whitney"] = "paired"
    """`paired`: sample by sample, on means over replicates. `mann_whitney`: by ranks, for episodes that share nothing."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """How often a claim may be wrong, over all candidates of one decision together; `alpha_covers` says what a decision is.
    Each further objective is a question of its own, and so is each kind of claim: better, not worse, worse."""
    alpha_covers: Literal["round", "run"] | None = None
    """What may be wrong that often: one round's decision, or any decision of the whole run, of which the first round takes a
    half of alpha, the second a sixth, and so on. Default: `run` where verdicts decide what the run goes on from (`accept:
    better` and `not_worse`), else `round`."""
    margin: Distance = 0.05
    """The largest loss that still counts as not worse, in units of the score."""
    accept: Literal["score", "better", "not_worse", "shorter"] = "score"
    """What makes a candidate the new best during the search: a better score; a better score with that verdict; or, with
    `shorter`, being shorter and satisfying the rule, whatever the score. Default with `compress`: `shorter`, with `evolve`:
    `better`."""
    correction: Literal["holm", "none"] = "holm"
    """Whether the candidates of a round are one decision together. Default with `compress`: `none`, because each edit is a
    decision of its own, and what counts is the confirmation of them all."""
    score_range: Positive | None = None
    """How far apart the best and the worst score of one sample can be. Default: 1 where all scores lie between 0 and 1, else
    what was observed."""
    must_pass: MustPass | None = None
    """Samples that every candidate must pass."""
    constraints: Annotated[list[Constraint], Field(max_length=20)] = Field(default_factory=list)
    """Limits that every candidate must keep: `cost <= 0.002`, `p95 latency_ms <= 800`."""
    objectives: Annotated[list[JudgedObjective], Field(max_length=10)] = Field(default_factory=list)
    """More objectives than the one that is optimized: each gets a verdict of its own, all together a Pareto front."""
    baseline_replicates: Annotated[int, Field(ge=1, le=1000)] | None = None
    """How often the baseline answers each sample. Its noise is part of every comparison and it is measured once, so that more
    of it makes every verdict sharper at little cost. Default: `replicates`."""
    racing: Racing | None = None
    """Stop candidates early. Default: every trial is measured in full. `true` takes the defaults."""
    noise: NoiseFirst | None = None
    """Replicate the baseline first. `true` takes the defaults."""

    @property
    def holds_for(self) -> Literal["candidate", "round", "run"]:
        """Over what alpha is the error rate."""
        if self.correction == "none":
            return "candidate"
        return self.alpha_covers or ("run" if self.accept in ("better", "not_worse") else "round")

    @model_validator(mode="before")
    @classmethod
    def _true_takes_the_defaults(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        switches: dict[str, Any] = {
            name: {} if value[name] is True else None for name in ("racing", "noise") if isinstance(value.get(name), bool)
        }
        must_pass = value.get("must_pass")
        if isinstance(must_pass, list):
            switches["must_pass"] = {"samples": must_pass}
        return {**value, **switches}


class Evidence(Payload):
    """What a comparison with a reference found. Effects are gains: positive is better, whatever the direction."""

    reference: str
    """The candidate it was compared with."""
    method: str = ""
    """The test, in words."""
    n: int = 0
    """Samples that both answered; those of one cluster are one."""
    merged_from: int = 0
    """How many samples these are, where some of them count as one; else 0."""
    missing: int = 0
    """Samples that only one of them, or none, answered; they are left out."""
    reference_mean: float = 0.0
    mean: float = 0.0
    effect: float = 0.0
    """The mean gain over the samples."""
    low: float = 0.0
    high: float = 0.0
    """The interval of the effect."""
    confidence: float = 0.95
    bound: float = 0.0
    """The effect is at least this, with one-sided confidence 1 - alpha."""
    p_better: float = 1.0
    """How likely such a gain is if there is none."""
    p_not_worse: float = 1.0
    """How likely such an effect is if the candidate is worse by the margin."""
    p_worse: float = 1.0
    """How likely such a loss is if there is none."""
    alpha: float = 0.05
    margin: float = 0.05
    better: int = 0
    """Samples that got better."""
    worse: int = 0
    """Samples that got worse."""
    strict_broken: int | None = None
    """Samples passed in every replicate of the reference and not of the candidate; for the strict rule."""
    strict_baseline: int | None = None
    """Samples passed in every replicate of the reference."""
    strict_false_rejections: float | None = None
    """How often the strict rule rejects a candidate that is as good as the reference, at these pass rates."""
    must_pass_broken: tuple[str, ...] = ()
    """Must-pass samples that failed, the first of them."""
    constraints: tuple[ConstraintCheck, ...] = ()
    objectives: dict[str, Evidence] = Field(default_factory=dict)
    """The same for every further objective."""
    refused: str | None = None
    """Why nothing can be said."""


class ConstraintCheck(Payload):
    """One constraint, on one trial."""

    constraint: str
    value: float | None
    limit: float
    low: float | None = None
    high: float | None = None
    holds: bool
    certain: bool = False
    """The interval lies on one side of the limit."""


class Judged(Payload):
    """The verdict on one candidate of a decision."""

    verdict: Verdict
    accepted: bool
    """Whether the rule is satisfied, must-pass samples and constraints included."""
    adjusted_p: float = 1.0
    """The p-value of the verdict, corrected for the number of candidates; where it is inconclusive, of the rule's question."""
    family: int = 1
    """How many candidates were judged together."""
    share: float = 1.0
    """How much of alpha the decision could use up; less than all of it where alpha is for the whole run."""
    explanation: str = ""
    """One sentence with the numbers."""
    evidence: Evidence
    objectives: dict[str, Verdict] = Field(default_factory=dict)


class Noise(Payload):
    """How much scores vary, and why, as replicated answers of one configuration show it."""

    samples: int
    replicates: float
    mean: float
    within: float
    """Variance between replicates of the same sample."""
    between: float
    """Variance between samples, replicate noise taken out."""
    noisy_samples: int = 0
    """Samples whose replicates differ."""


class Plan(Payload):
    """What a design can find out, said before anything is spent."""

    samples: int
    replicates: int
    baseline_replicates: int
    detectable: float
    """The smallest true gain that is called better with the wanted power, if all samples share in it."""
    detectable_on_few: float
    """The same if few samples gain a whole score each, and the others nothing."""
    margin: float
    """The smallest margin at which an equally good candidate is called not worse with the wanted power."""
    power: float
    alpha: float
    comparisons: int = 1
    """Candidates that are judged together."""
    calls_per_trial: int = 0
    reached: bool = True
    """Whether the wanted margin is reached."""
    finds_any: bool = True
    """Whether there is a gain, however large, that is found with the wanted power."""
    confirmable: float | None = None
    """The same as `detectable`, or `margin`, of the held-back samples, by which a winner is confirmed. None without any."""
    words: str = ""


class RaceDecision(Payload):
    """Whether a trial goes on after a look."""

    go_on: bool
    reason: Literal["futility", "regression", "win"] | None = None
    words: str = ""
    """The reason with its numbers."""
    samples: int = 0
    planned: int = 0
    effect: float = 0.0
    low: float = 0.0
    high: float = 0.0
    """Where the effect over all planned samples will lie, with the error rate of this look."""


Evidence.model_rebuild()
