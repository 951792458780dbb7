"""Scorers that say how alike two texts are: by letters, by words, by meaning."""

from __future__ import annotations

from typing import Any, Literal

from ratchet._values import ShortText
from workflows.model.spec.extensions.scorer_options import AskedModel, OutputScorer


class LikenessScorer(OutputScorer):
    """How alike two texts are; of several expected ones the nearest counts."""

    @property
    def needs_expected(self) -> bool:
        return True

    def unusable(self, expected: Any) -> str | None:
        return "is an empty list, but a text is what" if expected == [] else None


class LevenshteinScorer(LikenessScorer):
    """How alike two texts are, letter by letter: 1 minus the edits it takes over the length of the longer text."""

    graded_by = ".similarity:levenshtein"

    kind: Literal["levenshtein"]
    ignore_case: bool = False
    """Compare without regard to case."""


class RougeScorer(LikenessScorer):
    """ROUGE: which share of words, word pairs or word order the output has in common with what is expected, as F-measure."""

    graded_by = ".similarity:rouge"

    kind: Literal["rouge"]
    variant: Literal["rouge1", "rouge2", "rougeL"] = "rougeL"
    """Common words, common pairs of words, or the longest common sequence of words."""


class BleuScorer(LikenessScorer):
    """BLEU of one sentence, from 0 to 1, as sacrebleu computes it. Needs `ratchet-optimizer[text-metrics]` on the workers."""

    graded_by = ".similarity:bleu"

    kind: Literal["bleu"]
    tokenize: Literal["13a", "intl", "char", "none"] = "13a"
    """How words are told apart; `char` for languages that do not separate them."""


class SimilarityScorer(LikenessScorer):
    """Cosine similarity of output and expectation by an embedding model; 0 for unrelated and for opposite texts.

    Its calls count into tokens and cost of the answer.
    """

    graded_by = ".similarity:similarity"
    asks_somebody = True

    kind: Literal["similarity"]
    threshold: float = 0.75
    """A sample counts as passed when its score reaches this."""
    model: ShortText
    """The embedding model."""
    base_url: ShortText | None = None
    """Where it answers. Default: OPENAI_BASE_URL of the worker."""

    @property
    def asked_model(self) -> AskedModel:
        return AskedModel(self.model, self.base_url)
