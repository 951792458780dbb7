"""A Bayesian linear model of what lines are worth: one effect a line, pooled over every candidate that carries it, and what is
left to each candidate itself. What added lines are worth in general is one more effect, which all of them share.

A text that was changed is its lines: added ones count where they are there, original ones where they are gone. A text that was
replaced has hardly a line in common with the one before, so it is one thing as a whole, worth what the text before was worth,
more or less.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratchet._formats.canonical import canonical_json
from workflows.rules.reflection.lines import INCREMENTAL, kept_share, keys_of, lines_of, mark
from workflows.rules.reflection.measured_answers import MeasuredAnswers, MeasuredCandidate

Array = NDArray[np.floating[Any]]
Key = tuple[str, str, str]
"""What an effect belongs to: `line`, `text`, `value` or `added`; the factor; the line, the candidate or the value."""

Features = Mapping[Key, float]

ADDED = "added"
"""The kind of the effect that all added lines of a factor share."""

MOST_EFFECTS = 500
"""Lines that so few candidates carry that they are not among these are left to their candidates."""


LEAST_ROOM = 0.05
"""Above a baseline that answers everything as well as anybody did: in standard deviations of one answer."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before anything is measured. Means are shares of what the baseline lacks, strengths are in answers."""

    line_mean: float = 0.027
    line_mean_sd: float = 0.02
    """How far that may be from the truth: what any added line is worth is learned as well. More than some may do harm."""
    line_strength: float = 80.0
    widest: float = 0.1
    """The largest standard deviation of a line, as a share of what the baseline lacks: near perfection lucky answers to few
    samples say nothing."""
    vote_mean: float = 0.8
    """What a line is believed to be worth beyond that if every rewriting asks for it."""
    original_mean: float = 0.2
    """In standard deviations of one answer."""
    original_strength: float = 200.0
    replaced_strength: float = 20.0
    residual: float = 0.1
    """The standard deviation of what is left to a candidate itself."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a factor's value is read: the text that it goes back to, and its lines."""

    root: str
    """The candidate that text is of."""
    native: frozenset[str]
    """That text's lines."""
    inherited: Features
    """What that text is made of: nothing for the baseline's, what it replaced for others."""
    lines: frozenset[str]

    def features(self, factor: str) -> dict[Key, float]:
        """What it is made of."""
        made = dict(self.inherited)
        for line in self.lines - self.native:
            made["line", factor, line] = made.get(("line", factor, line), 0.0) + 1.0
        for line in self.native - self.lines:
            made["line", factor, line] = made.get(("line", factor, line), 0.0) - 1.0
        return made


Readings = Mapping[str, Reading]
"""By factor."""


@dataclass(frozen=True, slots=True)
class Model:
    """What is believed of all effects, and of what is left to each candidate."""

    candidates: Sequence[MeasuredCandidate]
    readings: Sequence[Readings]
    columns: Mapping[Key, int]
    design: Array
    """Candidates by effects; the last effect is the level of all."""
    mean: Array
    root: Array
    """The Cholesky factor of the effects' precision."""
    left: Array
    left_sd: Array

    def worth(self, effects: Array, factor: str, native: Collection[str]) -> dict[str, float]:
        """What each line of a factor is worth by these effects: its own, and what any line has that is not `native`."""
        column = self.columns.get((ADDED, factor, ""))
        any_line = 0.0 if column is None else float(effects[column])
        return {
            key[2]: float(effects[column]) + (0.0 if key[2] in native else any_line)
            for key, column in self.columns.items()
            if key[:2] == ("line", factor)
        }

    def values(self) -> Array:
        """What each candidate is worth, as far as is known."""
        return np.asarray(self.design @ self.mean + self.left)

    def lead(self, one: int, other: int) -> float:
        """By how much one candidate is better than another, in standard deviations of what is believed of that."""
        apart = self.design[one] - self.design[other]
        unsure = np.linalg.solve(self.root, apart)
        variance = float(unsure @ unsure + self.left_sd[one] ** 2 + self.left_sd[other] ** 2)
        gain = float(apart @ self.mean + self.left[one] - self.left[other])
        return gain / math.sqrt(max(variance, 1e-18))

    def drawn(self, generator: np.random.Generator) -> tuple[Array, Array]:
        """Effects as they may be, and what each candidate is worth by them."""
        effects = self.mean + np.linalg.solve(self.root.T, generator.standard_normal(len(self.mean)))
        left = self.left + self.left_sd * generator.standard_normal(len(self.left))
        return effects, np.asarray(self.design @ effects + left)


def fit(evidence: MeasuredAnswers, prior: Prior) -> Model:
    """The model of everything that was measured."""
    candidates = evidence.candidates
    readings = read_all(candidates)
    features = [_features(each) for each in readings]
    columns = _columns(features)
    design = np.zeros((len(candidates), len(columns) + 1))
    design[:, -1] = 1.0
    for row, made in enumerate(features):
        for key in made.keys() & columns.keys():
            design[row, columns[key]] = made[key]
    scale = spread_of_answers(candidates)
    answers = np.array([float(known.answers) for known in candidates])
    scores = np.array([known.mean() for known in candidates])
    believed, strength = _believed(columns, candidates, readings, prior, scale)
    strength = strength / scale**2
    believed[-1] = scores[0]
    residual = prior.residual * scale
    weights = 1.0 / (scale**2 / answers + residual**2)
    precision = (design * weights[:, None]).T @ design
    precision[np.diag_indices(len(believed))] += strength
    root = np.asarray(np.linalg.cholesky(precision), dtype=np.float64)
    mean = np.linalg.solve(root.T, np.linalg.solve(root, design.T @ (weights * scores) + strength * believed))
    mean = np.asarray(mean, dtype=np.float64)
    share = residual**2 * weights
    left = share * (scores - design @ mean)
    left_sd = np.asarray(residual * np.sqrt(1.0 - share))
    return Model(candidates, readings, columns, design, mean, root, left, left_sd)


def read_all(candidates: Sequence[MeasuredCandidate]) -> list[Readings]:
    """Every candidate's values, each as it follows from the candidate that it was made of."""
    found: dict[str, tuple[MeasuredCandidate, Readings]] = {}
    baseline = candidates[0]
    for known in candidates:
        base = next((found[parent] for parent in known.parents if parent in found), None)
        if base is None and found:
            base = found[baseline.candidate_id]
        found[known.candidate_id] = (known, _read(known, base, baseline))
    return [readings for _, readings in found.values()]


def _read(known: MeasuredCandidate, base: tuple[MeasuredCandidate, Readings] | None, baseline: MeasuredCandidate) -> Readings:
    readings = {}
    for factor, value in known.configuration.items():
        lines = frozenset(keys_of(lines_of(value))) if isinstance(value, str) else frozenset[str]()
        if base is None:
            readings[factor] = Reading(known.candidate_id, lines, {}, lines)
            continue
        before, here = base[1][factor], canonical_json(value)
        if here == canonical_json(base[0].configuration[factor]):
            readings[factor] = before
        elif not isinstance(value, str):
            original = here == canonical_json(baseline.configuration[factor])
            made: Features = {} if original else {("value", factor, here): 1.0}
            readings[factor] = Reading(known.candidate_id, lines, made, lines)
        elif _replaced(known, factor, before.lines, lines):
            made = {**before.features(factor), ("text", factor, known.candidate_id): 1.0}
            readings[factor] = Reading(known.candidate_id, lines, made, lines)
        else:
            readings[factor] = Reading(before.root, before.native, before.inherited, lines)
    return readings


def _replaced(known: MeasuredCandidate, factor: str, before: frozenset[str], after: frozenset[str]) -> bool:
    """Whether a text is another one. Who made it may have said so; otherwise it is told from how much was kept."""
    said = known.extra.get("replaced")
    return factor in said if isinstance(said, list) else kept_share(before, after) < INCREMENTAL


def _features(readings: Readings) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for factor, reading in readings.items():
        made = reading.features(factor)
        added = sum(value for (kind, _, _), value in made.items() if kind == "line" and value > 0)
        found |= {**made, (ADDED, factor, ""): added} if added else made
    return found


def _columns(features: Sequence[Features]) -> dict[Key, int]:
    """What gets an effect of its own: what several candidates have, and of the rest the newest."""
    carried: Counter[Key] = Counter()
    newest: dict[Key, int] = {}
    for row, made in enumerate(features):
        carried.update(made.keys())
        newest.update(dict.fromkeys(made, row))
    kept = sorted(newest, key=lambda key: (key[0] != ADDED, -min(carried[key], 3), -newest[key], key))[:MOST_EFFECTS]
    return {key: place for place, key in enumerate(sorted(kept))}


def spread_of_answers(candidates: Sequence[MeasuredCandidate]) -> float:
    """The standard deviation of one answer about its candidate's mean, and never 0."""
    means = [(known.mean(), known) for known in candidates]
    squares = sum((score - mean) ** 2 for mean, known in means for score in known.means.values())
    every = [score for known in candidates for score in known.means.values()]
    least = 0.02 * (max(every) - min(every)) or 1e-6
    return max(math.sqrt(squares / max(len(every) - len(candidates), 1)), least)


def _room_above(candidates: Sequence[MeasuredCandidate], scale: float) -> float:
    """What the baseline lacks of the best answer that anybody gave, and never 0: no line can be worth more."""
    best = max(score for known in candidates for score in known.means.values())
    return max(best - candidates[0].mean(), LEAST_ROOM * scale)


def _believed(
    columns: Mapping[Key, int],
    candidates: Sequence[MeasuredCandidate],
    readings: Sequence[Readings],
    prior: Prior,
    scale: float,
) -> tuple[Array, Array]:
    """The prior mean and strength of every effect, the level's last."""
    believed, strength = np.zeros(len(columns) + 1), np.full(len(columns) + 1, 1e-4)
    votes, baseline, room = _votes(candidates, readings), readings[0], _room_above(candidates, scale)
    for (kind, factor, name), place in columns.items():
        if kind == ADDED:
            strength[place] = (scale / (prior.line_mean_sd * room)) ** 2
        elif kind != "line":
            strength[place] = prior.replaced_strength
        elif name in baseline[factor].native:
            believed[place], strength[place] = prior.original_mean * scale, prior.original_strength
        else:
            believed[place] = room * (prior.line_mean + prior.vote_mean * votes.get((factor, mark(name)), 0.0))
            strength[place] = max(prior.line_strength, (scale / (prior.widest * room)) ** 2)
    return believed, strength


def _votes(candidates: Sequence[MeasuredCandidate], readings: Sequence[Readings]) -> dict[tuple[str, str], float]:
    """How many of those rewritings that could have asked for a line did: shrunk, since there may be few."""
    asked: Counter[tuple[str, str]] = Counter()
    had: Counter[tuple[str, str]] = Counter()
    chances = 0
    for known, read in zip(candidates, readings, strict=True):
        added = known.extra.get("added")
        if not isinstance(added, Mapping):
            continue
        chances += 1
        fresh = {(factor, str(line)) for factor, lines in added.items() if isinstance(lines, list) for line in lines}
        asked.update(fresh)
        had.update({(factor, mark(line)) for factor, reading in read.items() for line in reading.lines} - fresh)
    return {line: count / (max(chances - had[line], count) + 4.0) for line, count in asked.items()}
