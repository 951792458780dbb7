"""Scorers, which turn an output into named scores, and the objective, which turns scores into one number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from ratchet._frozen import SpecPart
from ratchet._values import CanonicalMapping, ShortText, Text
from ratchet.optimizer import Direction
from workflows.model.run.numbers import Distance, Positive, ScoreValue, Weight
from workflows.model.spec.extraction import Extract, regular_expression
from workflows.model.spec.named_plugins import PluginReference

ScoreName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.-]{0,63}$")]

DEEPEST_COMBINATION = 4
"""How deep scorers may be combined of scorers."""

MOST_GRADES = 100
"""How many steps a rubric's scale may have: the judge is shown every one of them."""


class _Scorer(SpecPart):
    name: ScoreName | None = None
    """The score's name, by which the objective refers to it. Default: the kind."""
    threshold: float = 0.5
    """A sample counts as passed when its score reaches this."""
    negate: Annotated[bool, Field(alias="not")] = False
    """Turn it around: the score becomes 1 minus itself, and what would have passed fails."""
    weight: Weight = 1.0
    """Its share in the `mean_of` that it is a member of."""

    model_config = SpecPart.model_config | {"populate_by_name": True, "serialize_by_alias": True}

    @property
    def score_name(self) -> str:
        return self.name or str(getattr(self, "kind", ""))


class _OutputScorer(_Scorer):
    extract: Extract | None = None
    """Score only a part of the output. An output that does not have it scores 0."""


class ExactScorer(_OutputScorer):
    """1 when the output equals what is expected, else 0."""

    kind: Literal["exact", "equals"]
    ignore_case: bool = False
    """Compare without regard to case."""
    strip: bool = True
    """Ignore white space around text."""


class ClassificationScorer(_OutputScorer):
    """1 when the output is the label that is expected, else 0.

    Keeps both labels, so that the objective can be `accuracy`, `precision`, `recall` or `f1` over the set.
    """

    kind: Literal["classification"]
    labels: list[ShortText] | None = None
    """Every label there is. Without them, a label that no sample expects is no class of its own but just wrong."""
    ignore_case: bool = True
    """Take labels for equal that differ only in case."""


class ContainsScorer(_OutputScorer):
    """1 when the output contains the text (or every text) that is expected, else 0."""

    kind: Literal["contains"]
    values: list[Text] | None = None
    """What must be contained. Default: the sample's `expected`, a text or a list of texts."""
    mode: Literal["all", "any"] = "all"
    """Whether all of several texts must be there, or any."""
    ignore_case: bool = False
    """Compare without regard to case."""


class StartsWithScorer(_OutputScorer):
    """1 when the output starts with the text that is expected, else 0."""

    kind: Literal["starts_with"]
    values: list[Text] | None = None
    """One of these must be its beginning. Default: the sample's `expected`, a text or a list of texts."""
    ignore_case: bool = False
    """Compare without regard to case."""


class RegexScorer(_OutputScorer):
    """1 when the pattern is found in the output, else 0."""

    kind: Literal["regex"]
    pattern: Text | None = None
    """The regular expression. Default: the sample's `expected`."""
    full_match: bool = False
    """Demand that the whole output matches."""

    _compiles = field_validator("pattern")(regular_expression)


class NumericScorer(_OutputScorer):
    """1 when the output is a number within tolerance of what is expected, falling linearly to 0 at `zero_at`."""

    kind: Literal["numeric"]
    absolute: Distance = 0.0
    """Absolute tolerance."""
    relative: Distance = 1e-9
    """Tolerance relative to the expected number."""
    zero_at: Positive | None = None
    """The distance at which the score reaches 0. Default: a miss is 0 at once."""


class JsonScorer(_OutputScorer):
    """1 when the output is valid JSON and satisfies the schema, if one is given, else 0."""

    kind: Literal["json"]
    json_schema: Annotated[CanonicalMapping | None, Field(alias="schema")] = None
    """The JSON Schema that the output must satisfy."""


class LevenshteinScorer(_OutputScorer):
    """How alike two texts are, letter by letter: 1 minus the edits it takes over the length of the longer text."""

    kind: Literal["levenshtein"]
    ignore_case: bool = False
    """Compare without regard to case."""


class RougeScorer(_OutputScorer):
    """ROUGE: which share of words, word pairs or word order the output has in common with what is expected, as F-measure."""

    kind: Literal["rouge"]
    variant: Literal["rouge1", "rouge2", "rougeL"] = "rougeL"
    """Common words, common pairs of words, or the longest common sequence of words."""


class BleuScorer(_OutputScorer):
    """BLEU of one sentence, from 0 to 1, as sacrebleu computes it. Needs `ratchet-optimizer[text-metrics]` on the workers."""

    kind: Literal["bleu"]
    tokenize: Literal["13a", "intl", "char", "none"] = "13a"
    """How words are told apart; `char` for languages that do not separate them."""


class SimilarityScorer(_OutputScorer):
    """Cosine similarity of output and expectation by an embedding model; 0 for unrelated and for opposite texts.

    Its calls count into tokens and cost of the answer.
    """

    kind: Literal["similarity"]
    threshold: float = 0.75
    """A sample counts as passed when its score reaches this."""
    model: ShortText
    """The embedding model."""
    base_url: ShortText | None = None
    """Where it answers. Default: OPENAI_BASE_URL of the worker."""


class RubricScorer(_OutputScorer):
    """A model grades the output by your rubric and says why. Its score is the grade's place on the scale, from 0 to 1.

    Its calls count into tokens and cost of the answer. A judge that cannot be reached is no score of 0: the answer is missing.
    """

    kind: Literal["rubric"]
    rubric: Annotated[Text, Field(min_length=1)]
    """What makes an answer good, and what the grades mean."""
    model: ShortText
    """The judge."""
    base_url: ShortText | None = None
    """Where the judge answers. Default: OPENAI_BASE_URL of the worker."""
    scale: tuple[int, int] = (1, 5)
    """The worst grade and the best."""
    parameters: CanonicalMapping = Field(default_factory=dict)
    """Request parameters for the judge, passed through."""
    response_format: Literal["json_schema", "json_object", "none"] = "json_schema"
    """How the judge is held to its form; for endpoints that know no JSON Schema, or no response format at all."""
    show: tuple[Literal["input", "expected"], ...] = ("input", "expected")
    """What the judge sees beside the output."""

    @field_validator("scale")
    @classmethod
    def _has_steps(cls, value: tuple[int, int]) -> tuple[int, int]:
        worst, best = value
        if not 1 <= best - worst <= MOST_GRADES:
            raise ValueError(
                f"is [{worst}, {best}]; go from the worst grade up to the best, "
                f"over at most {MOST_GRADES} steps, such as [1, 5]"
            )
        return value


class PythonScorer(_OutputScorer):
    """A Python callable `(output, sample) -> float | bool | Score | list[Score]`, sync or async."""

    kind: Literal["python"]
    ref: PluginReference
    """`package.module:attribute`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""


class ReportedScorer(_Scorer):
    """The score that the target itself gives its answer, as external runners and agents do. An answer without it fails the
    scoring."""

    kind: Literal["reported"]
    key: ScoreName | None = None
    """The score's name where it is given. Default: the name."""

    @property
    def reported_name(self) -> str:
        return self.key or self.score_name


class _MeasurementScorer(_Scorer):
    at_most: Annotated[float, Field(ge=0)] | None = None
    """Score 1 up to this, else 0. Without it, the score is the number itself, every answer passes, and an objective over it
    says `direction: minimize` and its `worst`."""

    @model_validator(mode="after")
    def _only_limits_turn_around(self) -> _MeasurementScorer:
        if self.negate and self.at_most is None:
            raise ValueError("not: needs at_most; a bare number has no opposite")
        return self


class LatencyScorer(_MeasurementScorer):
    """How long the target took, in milliseconds."""

    kind: Literal["latency"]
    until: Literal["end", "first_token"] = "end"
    """Until the answer was complete, or until its first token (a chat target needs `stream: true` for that)."""


class CostScorer(_MeasurementScorer):
    """What the target's answer cost, in the currency of the prices; what scoring it cost does not count."""

    kind: Literal["cost"]


class TokensScorer(_MeasurementScorer):
    """How many tokens the target's answer took, in and out; what scoring it took does not count."""

    kind: Literal["tokens"]


class CombinedScorer(_Scorer):
    """Several scorers as one.

    `all_of` is 1 when every member passes, `any_of` when one does, else 0; `mean_of` is their mean, by weight.
    """

    kind: Literal["all_of", "any_of", "mean_of"]
    scorers: Annotated[list[Scorer], Field(min_length=1)]
    """The members. Whether a member passes is decided by its own threshold."""

    @model_validator(mode="after")
    def _not_too_deep(self) -> CombinedScorer:
        if self.depth > DEEPEST_COMBINATION:
            raise ValueError(f"scorers: are combined more than {DEEPEST_COMBINATION} deep; use fewer levels")
        return self

    @property
    def depth(self) -> int:
        return 1 + max(member.depth if isinstance(member, CombinedScorer) else 0 for member in self.scorers)


Scorer = Annotated[
    ExactScorer
    | ClassificationScorer
    | ContainsScorer
    | StartsWithScorer
    | RegexScorer
    | NumericScorer
    | JsonScorer
    | LevenshteinScorer
    | RougeScorer
    | BleuScorer
    | SimilarityScorer
    | RubricScorer
    | LatencyScorer
    | CostScorer
    | TokensScorer
    | ReportedScorer
    | PythonScorer
    | CombinedScorer,
    Field(discriminator="kind"),
]
CombinedScorer.model_rebuild()


def placed_scorers(scorers: Sequence[Scorer], within: str = "") -> Iterator[tuple[str, Scorer]]:
    """Every scorer, members of combined ones too, with its field: `scorers[1].scorers[0]`."""
    for index, scorer in enumerate(scorers):
        place = f"{within}scorers[{index}]"
        yield place, scorer
        if isinstance(scorer, CombinedScorer):
            yield from placed_scorers(scorer.scorers, f"{place}.")


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
