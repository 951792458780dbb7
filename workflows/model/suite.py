"""The evaluation suite, stored once per run and split, and the outcomes it gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from ratchet.prompts.template import PromptTemplate
from workflows.model.measured_parts import MeasuredPart
from workflows.model.spec.durations import Duration
from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.model.spec.extensions.target_options import Target
from workflows.model.spec.judgement import JudgementSpec
from workflows.model.spec.limits import DEFAULT_PRIORITY, RateLimit
from workflows.model.spec.objective import Objective
from workflows.model.spec.prices import Price
from workflows.model.trial import Split


class LeftOut(Payload):
    """Samples of a given split that an earlier one has, too: they are no evidence, and not in the suite."""

    count: int
    ids: tuple[str, ...]
    """The first ones."""
    grouped: bool = False
    """Whether samples count as one by a field of the spec, and not by their content alone."""


class EvaluationSuite(Payload):
    """What every trial of a run is measured with on one split; kept in the store, so that shards carry only its key."""

    run_id: str
    split: Split
    suite_id: str
    """sha256 of dataset version, split and scorers."""
    dataset_id: str
    samples: int
    target_fingerprint: str
    """Of what answers: the target with its plug-in sources, its prompt's form, its flags; part of every answer's key."""
    scorer_fingerprint: str
    """Of what scores: the scorers with their plug-in sources; part of every score's key."""
    target: Target
    scorers: list[Scorer]
    objective: Objective
    metric: str
    """The score the objective is computed from."""
    same_as: dict[int, int] = Field(default_factory=dict)
    """For samples that count as one with another: where they are, and where the first of their cluster is."""
    left_out: LeftOut | None = None
    judgement: JudgementSpec = Field(default_factory=JudgementSpec)
    prices: dict[str, Price] = Field(default_factory=dict)
    sample_timeout: Duration = timedelta(seconds=60)
    reuse: Literal["run", "always", "never"] = "run"
    retry_of: str | None = None
    """The run whose answers are taken over, whatever `reuse` says."""
    rescore_of: str | None = None
    """The run whose answers are all there is: nothing is asked of the target, and failed answers stay what they are."""
    parts_before: tuple[MeasuredPart, ...] = ()
    """What configurations were measured on in that run, to decide whether they are worth all samples."""
    priority: int = DEFAULT_PRIORITY
    rate_limits: dict[str, RateLimit] = Field(default_factory=dict)
    concurrent_samples_per_trial: int | None = None
    experiment: str | None = None
    """What targets are told that the experiment is called; the run's id where the spec says nothing."""
    flags: dict[str, JsonValue] = Field(default_factory=dict)
    """The spec's flags, which targets are told."""
    prompt: PromptTemplate | None = None
    """What the configuration's sections and parameters are parts of."""
    publishes_prompt: bool = False
    """Candidates are put into the store of prompts, for targets that render it themselves."""
    baseline_hash: str | None = None
    """The overlay of the baseline, which every other one is compared with."""
    plugins: dict[str, str] = Field(default_factory=dict)
    """For each plug-in, the hash of its source or its stated version; a worker with other code must not answer."""

    @property
    def clusters(self) -> list[int] | None:
        """For every sample the place of the first one that it counts as one with; None where each counts by itself."""
        return [self.same_as.get(place, place) for place in range(self.samples)] if self.same_as else None

    def of_the_first(self, samples: int) -> EvaluationSuite:
        """The suite as if it ended after so many samples."""
        return self if samples == self.samples else self.model_copy(update={"samples": samples})


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answer and its scores: immutable. They are stored apart, the answer by (overlay, sample, replicate, target), the
    scores by (answer, scorer)."""

    item_hash: str
    replicate: int
    status: Literal["answered", "failed", "unscored"]
    """`failed` is the candidate's fault: the target raised, gave unusable output, refused, or took too long. `unscored`: the
    target answered, and the scorer raised."""
    scores: dict[str, float]
    """Every named score. A failed outcome has none; it counts as the objective's worst."""
    passed: bool
    output: Any = None
    error: str | None = None
    feedback: str = ""
    tokens: int = 0
    """What the target took; likewise the cost."""
    cost: float = 0.0
    latency_ms: float | None = None
    ttft_ms: float | None = None
    trace: Any = None
    per_score: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each score: passed and reason, as the scorer gave them; the labels of a classification; what scoring took."""
    error_class: str | None = None
    """Of a failed answer: `timeout`, `http 400`, `raised ValueError`; of an unscored one, what the scorer raised."""
    scoring_tokens: int = 0
    scoring_cost: float = 0.0
    fault: Literal["answer", "scorer"] | None = None
    """Why an answer that came has no score: no scorer can take it, or the scorer raised."""
    answer_id: int | None = None
    """None: it gets one when it is stored."""
    printed: str | None = None
    """The end of what the target printed."""
    scorers_printed: str | None = None
    echoed: bool = False
    """Whether the target said that it used the overlay."""
    was_kept: bool = False
    """Its answer was stored before it was scored."""
    cached_tokens: int = 0
    """Of the tokens that the target took, those that came from a provider's cache; likewise of scoring."""
    scoring_cached_tokens: int = 0

    @property
    def failed_in_the_target(self) -> bool:
        """Whether the failure belongs to the answer, not to its score."""
        return self.status == "failed" and self.fault is None


@dataclass(frozen=True, slots=True)
class UnscoredAnswer:
    """What a target answered, stored before it is scored: whatever becomes of the scoring, it is not paid for again."""

    answer_id: int
    item_hash: str
    replicate: int
    value: Any
    tokens: int = 0
    cost: float = 0.0
    latency_ms: float | None = None
    ttft_ms: float | None = None
    trace: Any = None
    error: str | None = None
    """Of an answer that failed, which no scorer is asked about; with its class."""
    error_class: str | None = None
    printed: str | None = None
    """The end of what the target printed."""
    echoed: bool = False
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class MeasuredSample:
    """What aggregation reads of one outcome: no output, no text."""

    position: int
    """The sample's place in the suite."""
    weight: float
    replicate: int
    status: Literal["answered", "failed", "unscored"]
    scores: dict[str, float]
    passed: bool
    tokens: int
    cost: float
    latency_ms: float | None
    ttft_ms: float | None
    per_score_passed: dict[str, bool] = field(default_factory=dict)
    labels: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    """For each classification: the label given, None by a failed answer, and the one expected."""
    scoring_tokens: int = 0
    """How many of the tokens were spent on scoring the answer."""
    scoring_cost: float = 0.0
    error_class: str | None = None
    paid: bool = True
    """False when the answer was copied from another run instead of paid for."""
    trial_id: str | None = None
    """The trial that asked for it, which is the one that pays."""
    scored_by: str | None = None
    """The trial that paid for the score alone, of an answer that was kept."""
    cached_tokens: int = 0
    """Of the tokens, those that came from a provider's cache; likewise of those spent on scoring."""
    scoring_cached_tokens: int = 0
