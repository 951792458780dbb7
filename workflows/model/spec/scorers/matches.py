"""Scorers that compare an output with what is expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from ratchet._values import CanonicalMapping, ShortText, Text
from workflows.model.run.numbers import Distance, Positive, finite_number
from workflows.model.spec.extensions.scorer_options import LabelRules, OutputScorer
from workflows.model.spec.extraction import pattern_problem, regular_expression


class ExactScorer(OutputScorer):
    """1 when the output equals what is expected, else 0."""

    graded_by = ".matches:exact"

    kind: Literal["exact", "equals"]
    ignore_case: bool = False
    """Compare without regard to case."""
    strip: bool = True
    """Ignore white space around text."""

    @property
    def needs_expected(self) -> bool:
        return True


class ClassificationScorer(OutputScorer):
    """1 when the output is the label that is expected, else 0.

    Keeps both labels, so that the objective can be `accuracy`, `precision`, `recall` or `f1` over the set.
    """

    graded_by = ".matches:classification"

    kind: Literal["classification"]
    labels: list[ShortText] | None = None
    """Every label there is. Without them, a label that no sample expects is no class of its own but just wrong."""
    ignore_case: bool = True
    """Take labels for equal that differ only in case."""

    @property
    def needs_expected(self) -> bool:
        return True

    @property
    def label_rules(self) -> LabelRules:
        return LabelRules(self.labels or (), self.ignore_case)


class ContainsScorer(OutputScorer):
    """1 when the output contains the text (or every text) that is expected, else 0."""

    graded_by = ".matches:contains"

    kind: Literal["contains"]
    values: list[Text] | None = None
    """What must be contained. Default: the sample's `expected`, a text or a list of texts."""
    mode: Literal["all", "any"] = "all"
    """Whether all of several texts must be there, or any."""
    ignore_case: bool = False
    """Compare without regard to case."""

    @property
    def needs_expected(self) -> bool:
        return self.values is None


class StartsWithScorer(OutputScorer):
    """1 when the output starts with the text that is expected, else 0."""

    graded_by = ".matches:starts_with"

    kind: Literal["starts_with"]
    values: list[Text] | None = None
    """One of these must be its beginning. Default: the sample's `expected`, a text or a list of texts."""
    ignore_case: bool = False
    """Compare without regard to case."""

    @property
    def needs_expected(self) -> bool:
        return self.values is None


class RegexScorer(OutputScorer):
    """1 when the pattern is found in the output, else 0."""

    graded_by = ".forms:regex"

    kind: Literal["regex"]
    pattern: Text | None = None
    """The regular expression. Default: the sample's `expected`."""
    full_match: bool = False
    """Demand that the whole output matches."""

    _compiles = field_validator("pattern")(regular_expression)

    @property
    def needs_expected(self) -> bool:
        return self.pattern is None

    def unusable(self, expected: Any) -> str | None:
        is_pattern = isinstance(expected, str) and pattern_problem(expected) is None
        return None if is_pattern else "is no regular expression, which"


class NumericScorer(OutputScorer):
    """1 when the output is a number within tolerance of what is expected, falling linearly to 0 at `zero_at`."""

    graded_by = ".matches:numeric"

    kind: Literal["numeric"]
    absolute: Distance = 0.0
    """Absolute tolerance."""
    relative: Distance = 1e-9
    """Tolerance relative to the expected number."""
    zero_at: Positive | None = None
    """The distance at which the score reaches 0. Default: a miss is 0 at once."""

    @property
    def needs_expected(self) -> bool:
        return True

    def unusable(self, expected: Any) -> str | None:
        return "is no number, which" if finite_number(expected) is None else None


class JsonScorer(OutputScorer):
    """1 when the output is valid JSON and satisfies the schema, if one is given, else 0."""

    graded_by = ".forms:json_value"

    kind: Literal["json"]
    json_schema: Annotated[CanonicalMapping | None, Field(alias="schema")] = None
    """The JSON Schema that the output must satisfy."""

    @property
    def schema_used(self) -> Mapping[str, Any] | None:
        return self.json_schema
