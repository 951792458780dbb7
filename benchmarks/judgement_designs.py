"""Designs that a spec can express, and decisions about candidates that are the baseline itself, answered again.

What is drawn are answers; whatever is found in them, the product's own code finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from benchmarks.judgement_worlds import Array, broken, changed
from workflows.model.spec.judgement import Judged, JudgementSpec, Verdict
from workflows.rules.decisions.verdicts import judge
from workflows.rules.statistics import TrialAnswers, evidence_of

Rates = Callable[[np.random.Generator, int], Array]
Answers = Callable[[np.random.Generator, Array, int], Array]


def at(rate: float) -> Rates:
    """All samples pass as often."""
    return lambda random, samples: np.full(samples, rate)


def beta(above: float, below: float) -> Rates:
    """Samples differ in how often they pass."""
    return lambda random, samples: random.beta(above, below, samples)


def passing(random: np.random.Generator, rates: Array, replicates: int) -> Array:
    """Answers that pass or fail."""
    return (random.random((len(rates), replicates)) < rates[:, None]).astype(np.float64)


def graded(random: np.random.Generator, rates: Array, replicates: int) -> Array:
    """Grades from 1 to 5; the higher the rate, the more of them are the best."""
    return np.asarray(1.0 + random.binomial(4, np.repeat(rates[:, None], replicates, axis=1)), dtype=np.float64)


def continuous(random: np.random.Generator, rates: Array, replicates: int) -> Array:
    """Scores with a long tail towards 0, as similarities have them."""
    return np.asarray(np.exp(-random.exponential(1.0, (len(rates), replicates)) * 3 * (1 - rates[:, None]) ** 2))


def lognormal(random: np.random.Generator, rates: Array, replicates: int) -> Array:
    """Scores without an upper end."""
    return np.asarray(np.exp(rates[:, None] + random.normal(0, 1.0, (len(rates), replicates))))


def steadily(random: np.random.Generator, rates: Array, replicates: int) -> Array:
    """The same answer every time, whoever is asked: what a sample scores is drawn once."""
    fixed = (np.modf(rates * 1e6)[0] < rates).astype(np.float64)
    return np.repeat(fixed[:, None], replicates, axis=1)


@dataclass(frozen=True)
class Design:
    """One way to measure a candidate."""

    name: str
    samples: int = 50
    baseline: int = 1
    candidate: int = 1
    rates: Rates = field(default_factory=lambda: beta(8, 1.2))
    answers: Answers = passing
    weights: Callable[[np.random.Generator, int], Array] | None = None
    copies: int = 1
    """So many samples in a row are copies of one item; answers of copies are the same where `alike`."""
    alike: bool = False
    candidates: int = 1
    spec: JudgementSpec = field(default_factory=JudgementSpec)
    effect: float = 0.0
    """By how much the candidate's pass rates differ from the baseline's, on the mean."""
    few: float = 0.0
    """The share of samples that the candidate fails always."""

    def drawn(self, random: np.random.Generator) -> tuple[TrialAnswers, list[TrialAnswers]]:
        """The baseline's answers and those of all candidates."""
        items = -(-self.samples // self.copies)
        rates = self.rates(random, items)
        other = changed(rates, self.effect) if self.effect else rates
        other = broken(random, other, self.few) if self.few else other
        weights = list(self.weights(random, self.samples)) if self.weights else None
        clusters = [place // self.copies for place in range(self.samples)] if self.copies > 1 else None
        trials = [self._trial(random, rates, self.baseline)]
        trials += [self._trial(random, other, self.candidate) for _ in range(self.candidates)]
        first, *others = [TrialAnswers(means, weights, singles, clusters) for means, singles in trials]
        return first, others

    def _trial(
        self, random: np.random.Generator, rates: Array, replicates: int
    ) -> tuple[list[float | None], list[list[float]]]:
        if self.copies > 1:
            each = np.repeat(rates, self.copies)[: self.samples]
            answers = self.answers(random, rates, replicates)[np.arange(self.samples) // self.copies] if self.alike else None
            found = self.answers(random, each, replicates) if answers is None else answers
        else:
            found = self.answers(random, rates, replicates)
        return found.mean(axis=1).tolist(), found.tolist()

    def judged(self, random: np.random.Generator, seed: int) -> list[Judged]:
        """The verdicts on candidates that are decided about together."""
        baseline, candidates = self.drawn(random)
        found = [
            evidence_of(baseline, candidate, spec=self.spec, seed=seed + place) for place, candidate in enumerate(candidates)
        ]
        return judge(found, self.spec)


class Claims(NamedTuple):
    """In how many decisions some candidate was called so."""

    decisions: int
    better: int
    not_worse: int
    worse: int


def claims(design: Design, decisions: int, seed: int) -> Claims:
    """So many decisions by one design."""
    random = np.random.default_rng([seed, *design.name.encode()])
    counts: Mapping[Verdict, int] = dict.fromkeys(Verdict, 0)
    found = dict.fromkeys(counts, 0)
    for place in range(decisions):
        called = {judged.verdict for judged in design.judged(random, place)}
        for verdict in called:
            found[verdict] += 1
    return Claims(decisions, found[Verdict.BETTER], found[Verdict.NOT_WORSE], found[Verdict.WORSE])
