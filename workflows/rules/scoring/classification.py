"""Measures over the labels of a whole trial: accuracy, precision, recall and F1 cannot be told from one sample."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pydantic import Field

from ratchet._frozen import Payload


class LabelCounts(Payload):
    """One label over a trial. Counts are sums of weights: a sample's replicates share the sample's weight."""

    hits: float = 0.0
    """Expected and given."""
    false_alarms: float = 0.0
    """Given, and another one was expected."""
    misses: float = 0.0
    """Expected, and something else or nothing was given."""

    @property
    def expected(self) -> float:
        return self.hits + self.misses

    @property
    def precision(self) -> float:
        return _share(self.hits, self.false_alarms)

    @property
    def recall(self) -> float:
        return _share(self.hits, self.misses)

    @property
    def f1(self) -> float:
        return _share(2 * self.hits, self.false_alarms + self.misses)


class Classification(Payload):
    """How the labels of one scorer came out."""

    accuracy: float = 0.0
    ignore_case: bool = False
    """Labels are in lower case then."""
    by_label: dict[str, LabelCounts] = Field(default_factory=dict)
    """Every label that some sample expects, and of the known ones every one that was given."""

    def measure(self, kind: str, average: str, positive: str | None) -> float:
        """`accuracy`, `precision`, `recall` or `f1`: of one label, or of all as the average says."""
        if kind == "accuracy":
            return self.accuracy
        if positive is not None:
            counts_of_one = self.by_label.get(folded(positive, self.ignore_case), LabelCounts())
            return float(getattr(counts_of_one, kind))
        counts = list(self.by_label.values())
        if average == "micro":
            return float(getattr(_together(counts), kind))
        weights = [count.expected if average == "weighted" else 1.0 for count in counts]
        values = [float(getattr(count, kind)) for count in counts]
        total = math.fsum(weights)
        return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / total if total else 0.0


def classify(
    answers: Iterable[tuple[float, str | None, str]], known: Sequence[str] = (), *, ignore_case: bool = False
) -> Classification:
    """From (weight, given label, expected label) of every answer; a failed answer gives None.

    Where case is ignored, labels come as `folded` makes them.
    """
    hits, misses, alarms = (defaultdict[str, list[float]](list) for _ in range(3))
    for weight, given, expected in answers:
        if given == expected:
            hits[expected].append(weight)
            continue
        misses[expected].append(weight)
        if given is not None:
            alarms[given].append(weight)
    right, wrong = (math.fsum(weight for weights in kind.values() for weight in weights) for kind in (hits, misses))
    labels = sorted({*hits, *misses} | ({folded(label, ignore_case) for label in known} & set(alarms)))
    return Classification(
        accuracy=_share(right, wrong),
        ignore_case=ignore_case,
        by_label={
            label: LabelCounts(
                hits=math.fsum(hits.get(label, ())),
                misses=math.fsum(misses.get(label, ())),
                false_alarms=math.fsum(alarms.get(label, ())),
            )
            for label in labels
        },
    )


def folded(label: str, ignore_case: bool) -> str:
    """A label as it is counted."""
    label = label.strip()
    return label.casefold() if ignore_case else label


def _together(counts: Sequence[LabelCounts]) -> LabelCounts:
    return LabelCounts(
        hits=math.fsum(count.hits for count in counts),
        misses=math.fsum(count.misses for count in counts),
        false_alarms=math.fsum(count.false_alarms for count in counts),
    )


def _share(part: float, rest: float) -> float:
    return part / (part + rest) if part else 0.0
