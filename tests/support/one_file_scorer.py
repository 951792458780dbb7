"""`near`, a scorer that Ratchet does not have: what a spec says of it, and what grades by it, in one file."""

from __future__ import annotations

from typing import Any, Literal

from activities.scorers.grades import Grade
from ratchet import Output, Sample, Score
from workflows.model.run.numbers import Positive
from workflows.model.spec.extensions.scorer_options import OutputScorer


class NearScorer(OutputScorer):
    """How near a number is to what is expected: 1 there, 0 from `reach` away."""

    graded_by = f"{__name__}:graded"

    kind: Literal["near"]
    reach: Positive
    """From where on nothing counts."""

    @property
    def needs_expected(self) -> bool:
        return True

    def unusable(self, expected: Any) -> str | None:
        return None if isinstance(expected, int | float) else "is no number, which"


def graded(scorer: NearScorer, output: Output, sample: Sample) -> Grade:
    """Grade one output."""
    away = abs(float(output.value) - float(sample.expected))
    return Grade(Score(scorer.score_name, max(0.0, 1.0 - away / scorer.reach), reason=f"is {away:g} away"))
