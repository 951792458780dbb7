"""What a scorer hands back: a score, and what belongs to it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from ratchet import Score
from workflows.model.failures import cut, described, shorten
from workflows.model.run.numbers import LARGEST_SCORE
from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.rules.scoring.objective_score import ScoringFailed

LONGEST_REASON = 4_000
LONGEST_LABEL = 200
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Grade:
    """One named score of one output."""

    score: Score
    labels: tuple[str | None, str] | None = None
    """The label given and the one expected."""
    tokens: int = 0
    """What it took to find the score, which is part of what the answer took."""
    cost: float = 0.0
    cached_tokens: int = 0
    """Of the tokens, those that came from a provider's cache."""

    def details(self) -> dict[str, Any]:
        """What is kept of it beside its value."""
        details: dict[str, Any] = {"passed": self.score.passed, "reason": self.score.reason}
        if self.labels is not None:
            details["labels"] = list(self.labels)
        if self.tokens or self.cost:
            details |= {"tokens": self.tokens, "cost": self.cost}
        if self.cached_tokens:
            details["cached_tokens"] = self.cached_tokens
        return details


def decided(grade: Grade, scorer: Scorer) -> Grade:
    """A finite score with `passed` settled, turned around where the scorer says `not`."""
    given = grade.score
    value = _finite(given.value, scorer)
    if not isinstance(given.name, str) or not _NAME.fullmatch(given.name):
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave a score named {given.name!r}; use letters, digits, _ . -")
    passed = value >= scorer.threshold if given.passed is None else bool(given.passed)
    reason = None if given.reason is None else cut(clean(str(given.reason)), LONGEST_REASON)
    score = Score(given.name, value, passed, reason)
    return replace(grade, score=turned_around(score) if scorer.negate else score)


def turned_around(score: Score) -> Score:
    """What `not` makes of a score. What was wrong with a miss is right now, and not worth a word."""
    reason = score.reason or f"scores {score.value:g}, and should not"
    return Score(score.name, 1.0 - score.value, not score.passed, reason if score.passed else None)


def hit_or_miss(scorer: Scorer, hit: bool, miss: str, holds: str) -> Grade:
    """1 or 0. Feedback says what is wrong: what a miss lacks or, by a negated scorer, what holds of a hit."""
    reason = (f"{holds}, and must not" if hit else None) if scorer.negate else (None if hit else miss)
    return Grade(Score(scorer.score_name, 1.0 if hit else 0.0, reason=reason))


def _finite(value: Any, scorer: Scorer) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave {_repr(value)}, which is not a number") from None
    except Exception as error:  # a number of its own may raise whatever it likes
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave what cannot be read: {described(error)}") from None
    if not math.isfinite(number):
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave {number}, which is not a finite number")
    if abs(number) > LARGEST_SCORE:
        most = f"{LARGEST_SCORE:g}"
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave {number:g}; give a number between -{most} and {most}")
    return number


def _repr(value: Any) -> str:
    try:
        return shorten(repr(value), 200)
    except Exception:
        return f"a {type(value).__name__}"


def clean(text: str) -> str:
    """Without what no store keeps."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
