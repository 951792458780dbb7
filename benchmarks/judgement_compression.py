"""Compression with known damage: sections of a prompt that can be cut, some of them for nothing, some at a price, some only
together. What each way of deciding saves, what it breaks, and what it spends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from benchmarks.judgement_worlds import Array, pass_probabilities
from workflows.model.spec.judgement import JudgementSpec, Racing
from workflows.rules.decisions.verdicts import judge
from workflows.rules.proposals.composition import Part, Parts, next_step
from workflows.rules.statistics import compare, race

SAMPLES, REPLICATES, BASELINE_REPLICATES = 200, 3, 5
MARGIN = 0.05
SPEC = JudgementSpec(rule="non_inferiority", accept="not_worse", margin=MARGIN, racing=Racing())


class Prompt(NamedTuple):
    """Sections that can be cut: what each saves, what it costs, and what two of them cost together."""

    tokens: list[int]
    damage: list[float]
    """Of the pass rate of every sample; positive is harm."""
    together: dict[tuple[int, int], float]
    """Harm on top, when both are cut: each says what the other says, too."""

    def harm(self, cut: frozenset[int]) -> float:
        alone = sum(self.damage[section] for section in cut)
        return alone + sum(harm for pair, harm in self.together.items() if set(pair) <= cut)

    def saved(self, cut: frozenset[int]) -> int:
        return sum(self.tokens[section] for section in cut)

    @property
    def most_savable(self) -> int:
        """Tokens that can be saved for nothing: of two that need each other, the smaller has to stay."""
        free = frozenset(section for section, damage in enumerate(self.damage) if damage == 0)
        kept = {min(pair, key=lambda section: self.tokens[section]) for pair in self.together}
        return self.saved(free - kept)


def draw_prompt(random: np.random.Generator) -> Prompt:
    """Ten sections: five that say nothing new, two that say the same, one that helps a little, two that help much."""
    damage = [0.0] * 7 + [float(random.uniform(0.01, 0.03))] + [float(random.uniform(0.06, 0.25)) for _ in range(2)]
    tokens = [int(random.lognormal(4.8, 0.7)) + 20 for _ in damage]
    return Prompt(tokens, damage, {(5, 6): float(random.uniform(0.08, 0.2))})


def noisy(random: np.random.Generator) -> Array:
    """Samples of a model that answers differently each time."""
    return pass_probabilities(random, SAMPLES)


def steady(random: np.random.Generator) -> Array:
    """Samples of a model that nearly always answers alike."""
    return np.where(random.random(SAMPLES) < 0.9, 0.998, 0.02)


WORLDS: dict[str, Callable[[np.random.Generator], Array]] = {"noisy": noisy, "steady": steady}


@dataclass
class Lab:
    """Measures cuts of one prompt, and counts what that takes."""

    random: np.random.Generator
    prompt: Prompt
    rates: Array
    calls: int = 0
    baseline: Array = field(init=False)

    def __post_init__(self) -> None:
        self.hurts = np.argsort(self.random.random(SAMPLES))

    def measured(self, cut: frozenset[int], replicates: int) -> Array:
        """Passes per sample. Harm hits some samples for good: as large a share of them as the mean loses."""
        self.calls += SAMPLES * replicates
        return self.random.binomial(replicates, self._rates(cut)).astype(np.float64)

    def _rates(self, cut: frozenset[int]) -> Array:
        hit = round(self.prompt.harm(cut) * SAMPLES / float(self.rates.mean()))
        rates = self.rates.copy()
        rates[self.hurts[: min(hit, SAMPLES)]] = 0.0
        return rates


class Shipped(NamedTuple):
    """What came of one compression."""

    saved: float
    """Of the tokens that can be saved for nothing."""
    harm: float
    calls: int


def by_ratchet(random: np.random.Generator, prompt: Prompt, world: Callable[[np.random.Generator], Array]) -> Shipped:
    """Singles, together, greedily: not worse by the margin, raced, nothing measured twice; then confirmed on other samples."""
    lab = Lab(random, prompt, world(random))
    baseline = list(lab.measured(frozenset(), BASELINE_REPLICATES) / BASELINE_REPLICATES)
    parts = [Part(str(section), str(section), tokens) for section, tokens in enumerate(prompt.tokens)]
    accepted: dict[Parts, bool] = {}
    while (step := next_step(parts, accepted)).phase != "done":
        for tried in step.measure:
            accepted[tried] = _harmless(lab, baseline, frozenset(int(part) for part in tried))
    chosen = frozenset(int(part) for part in step.chosen)
    if not chosen:
        return Shipped(0.0, 0.0, lab.calls)
    untouched = Lab(random, prompt, world(random))
    before = list(untouched.measured(frozenset(), BASELINE_REPLICATES) / BASELINE_REPLICATES)
    after = list(untouched.measured(chosen, REPLICATES) / REPLICATES)
    [confirmed] = judge([compare(before, after, spec=SPEC)], SPEC)
    shipped = chosen if confirmed.accepted else frozenset()
    return Shipped(prompt.saved(shipped) / prompt.most_savable, prompt.harm(shipped), lab.calls + untouched.calls)


def _harmless(lab: Lab, baseline: list[float], cut: frozenset[int]) -> bool:
    answers = list(lab.measured(cut, REPLICATES) / REPLICATES)
    block = (SPEC.racing or Racing()).block
    for seen in range(block, SAMPLES, block):
        look = race(baseline[:seen], answers[:seen], planned=SAMPLES, spec=SPEC)
        if not look.go_on:
            lab.calls -= (SAMPLES - seen) * REPLICATES
            return look.reason == "win"
    return judge([compare(baseline, answers, spec=SPEC)], SPEC)[0].accepted


def by_document_000(random: np.random.Generator, prompt: Prompt, world: Callable[[np.random.Generator], Array]) -> Shipped:
    """As the document writes it: what always passed must always pass; every set is measured anew; nothing is confirmed."""
    lab = Lab(random, prompt, world(random))
    always = lab.measured(frozenset(), REPLICATES) == REPLICATES

    def keeps_all(cut: frozenset[int]) -> bool:
        return bool(np.all(lab.measured(cut, REPLICATES)[always] == REPLICATES))

    ordered = sorted(range(len(prompt.tokens)), key=lambda section: -prompt.tokens[section])
    kept = [section for section in ordered if keeps_all(frozenset([section]))]
    if len(kept) > 1 and not keeps_all(frozenset(kept)):
        greedy: list[int] = []
        for section in kept:
            if keeps_all(frozenset([*greedy, section])):
                greedy.append(section)
        kept = greedy
    cut = frozenset(kept)
    return Shipped(prompt.saved(cut) / prompt.most_savable, prompt.harm(cut), lab.calls)
