"""Scorers that say how alike two texts are: by letters, by words, by meaning. Of several expected texts the nearest counts."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from activities.endpoints.embeddings import embed
from activities.scorers.grades import Grade
from activities.scorers.matches import difference, expected_of, shown
from activities.scorers.model_calls import asked
from activities.targets.faults import CandidateFault, Unjudged
from ratchet import Output, Sample, Score
from ratchet._text.placeholders import as_text
from workflows.model.failures import shorten
from workflows.model.spec.scorers.similarity import BleuScorer, LevenshteinScorer, RougeScorer, SimilarityScorer
from workflows.rules.scoring.objective_score import ScoringFailed

if TYPE_CHECKING:
    from activities.scorers import ScorerTools

LONGEST_COMPARED = 100_000
"""Characters of each text that are compared."""

MOST_MISSING_WORDS = 12
_WORD = re.compile(r"\w+")


def references(sample: Sample, kind: str) -> list[str]:
    """What the sample expects, as texts of which any will do."""
    expected = expected_of(sample, kind)
    texts = [as_text(part) for part in expected] if isinstance(expected, list) else [as_text(expected)]
    if not texts:
        raise ScoringFailed(f"sample {sample.id!r} expects an empty list, which scorer {kind!r} cannot compare with")
    return [text[:LONGEST_COMPARED] for text in texts]


async def levenshtein(scorer: LevenshteinScorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
    text, expected = _compared(output), references(sample, scorer.kind)
    fold = str.casefold if scorer.ignore_case else str
    values = [await tools.matching.compare("levenshtein", fold(text), fold(one)) for one in expected]
    nearest = max(range(len(values)), key=values.__getitem__)
    return _likeness(scorer.score_name, values[nearest], difference(text, expected[nearest]))


async def rouge(scorer: RougeScorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
    text, expected = _compared(output), references(sample, scorer.kind)
    values = [await tools.matching.compare("rouge", text, one, scorer.variant) for one in expected]
    nearest = max(range(len(values)), key=values.__getitem__)
    return _likeness(scorer.score_name, values[nearest], missing_words(text, expected[nearest]))


async def bleu(scorer: BleuScorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
    text, expected = _compared(output), references(sample, scorer.kind)
    value = await tools.matching.compare("bleu", text, expected, scorer.tokenize)
    return _likeness(scorer.score_name, value, missing_words(text, expected[0]))


async def similarity(scorer: SimilarityScorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
    text, expected = as_text(output.value), references(sample, scorer.kind)
    if not text.strip():
        return Grade(Score(scorer.score_name, 0.0, reason=f"is empty; expected {shown(expected[0])}"))
    if not all(one.strip() for one in expected):
        raise ScoringFailed(f"sample {sample.id!r} expects an empty text, which scorer {scorer.kind!r} cannot compare with")
    try:
        embedded = await asked(
            lambda: embed(
                tools.models,
                [text[:LONGEST_COMPARED], *expected],
                base_url=scorer.base_url,
                model=scorer.model,
                timeout=tools.longest_call,
                prices=tools.prices,
                context=tools.context,
            ),
            tools.models.patience.seconds,
        )
    except CandidateFault as fault:  # of the model that embeds, which is not the one that is measured
        raise Unjudged(shorten(f"model {scorer.model!r} of scorer {scorer.score_name!r}: {fault}"), kind=fault.kind) from None
    mine, *theirs = embedded.vectors
    value = max(cosine(mine, vector) for vector in theirs)
    reason = (
        f"means something else (similarity {value:.2f}); expected {shown(expected[0])}" if value < scorer.threshold else None
    )
    return Grade(Score(scorer.score_name, value, reason=reason), tokens=embedded.tokens, cost=embedded.cost)


def cosine(one: list[float], other: list[float]) -> float:
    """From 0 to 1: what points the other way is as unlike as what has nothing in common."""
    lengths = math.hypot(*one), math.hypot(*other)
    if not all(0.0 < length < math.inf for length in lengths):
        return 0.0
    product = math.fsum(a / lengths[0] * (b / lengths[1]) for a, b in zip(one, other, strict=True))
    return min(max(product, 0.0), 1.0)


def missing_words(text: str, expected: str) -> str:
    """What was expected and is nowhere in the text."""
    given = set(_WORD.findall(text.lower()))
    missing = [word for word in dict.fromkeys(_WORD.findall(expected.lower())) if word not in given]
    if not missing:
        return f"has the words in another order, or further ones; expected {shown(expected)}"
    more = f" and {len(missing) - MOST_MISSING_WORDS} more" if len(missing) > MOST_MISSING_WORDS else ""
    return f"lacks the words {', '.join(missing[:MOST_MISSING_WORDS])}{more}"


def _compared(output: Output) -> str:
    return as_text(output.value)[:LONGEST_COMPARED]


def _likeness(name: str, value: float, why_not: str) -> Grade:
    return Grade(Score(name, min(max(value, 0.0), 1.0), reason=None if value >= 1.0 else why_not))
