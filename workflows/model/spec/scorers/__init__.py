"""Scorers as a spec describes them, with all that others ask of them; one line for each word in the registry below."""

from __future__ import annotations

from typing import Final

from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.model.spec.scorers.combinations import CombinedScorer
from workflows.model.spec.scorers.matches import (
    ClassificationScorer,
    ContainsScorer,
    ExactScorer,
    JsonScorer,
    NumericScorer,
    RegexScorer,
    StartsWithScorer,
)
from workflows.model.spec.scorers.measurements import CostScorer, LatencyScorer, TokensScorer
from workflows.model.spec.scorers.own_activity import ActivityScorer
from workflows.model.spec.scorers.python import PythonScorer
from workflows.model.spec.scorers.reported import ReportedScorer
from workflows.model.spec.scorers.rubric import RubricScorer
from workflows.model.spec.scorers.similarity import BleuScorer, LevenshteinScorer, RougeScorer, SimilarityScorer
from workflows.model.spec.scorers.trajectories import StepsScorer, ToolsAvoidedScorer, ToolsCalledScorer

SCORERS: Final[dict[str, type[Scorer]]] = {
    "exact": ExactScorer,
    "equals": ExactScorer,
    "classification": ClassificationScorer,
    "contains": ContainsScorer,
    "starts_with": StartsWithScorer,
    "regex": RegexScorer,
    "numeric": NumericScorer,
    "json": JsonScorer,
    "levenshtein": LevenshteinScorer,
    "rouge": RougeScorer,
    "bleu": BleuScorer,
    "similarity": SimilarityScorer,
    "rubric": RubricScorer,
    "tools_called": ToolsCalledScorer,
    "tools_avoided": ToolsAvoidedScorer,
    "steps": StepsScorer,
    "latency": LatencyScorer,
    "cost": CostScorer,
    "tokens": TokensScorer,
    "reported": ReportedScorer,
    "python": PythonScorer,
    "activity": ActivityScorer,
    "all_of": CombinedScorer,
    "any_of": CombinedScorer,
    "mean_of": CombinedScorer,
}
"""By the word in a spec, in the order in which they are described."""
