"""Thousands of simulated decisions with known truth: how often each claim is wrong, what it costs, and how others decide.

    python -m benchmarks.judgement [--quick] [--only PART]

Nothing is measured but the product's own rules (`workflows.rules.statistics`, `workflows.rules.decisions.verdicts`,
`workflows.rules.proposals.composition`); no server is started. Unless said otherwise: 200 samples × 3 replicates, pass
probabilities of the samples drawn from Beta(8, 1.2), margin 5 percentage points, alpha 5 %. Every part has a seed of its
own, from SEEDS, and can be measured alone. Unequal replicates, few samples, weights, copies, and whole runs are in
`judgement_cells` and `judgement_runs`; what runs of every optimizer say in the end is in `judgement_confirmations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.figures import Figure, main
from benchmarks.judgement_cells import error_rates
from benchmarks.judgement_compression import WORLDS, by_document_000, by_ratchet, draw_prompt
from benchmarks.judgement_confirmations import confirmations
from benchmarks.judgement_rules import RULES, Trials
from benchmarks.judgement_runs import whole_runs
from benchmarks.judgement_worlds import Array, broken, changed, pass_probabilities, passes
from workflows.model.spec.judgement import JudgementSpec, Racing, Verdict
from workflows.rules.decisions.verdicts import holm, judge
from workflows.rules.statistics import compare, race
from workflows.rules.statistics.gain_pairs import pair
from workflows.rules.statistics.mean_test import moments, p_above
from workflows.rules.statistics.sign_flip import sign_flip

SEEDS = {"A/A": 501, "non-inferiority": 502, "racing": 503, "best of 50": 504, "compression": 505}

SAMPLES, REPLICATES, BASELINE_REPLICATES = 200, 3, 5
ALPHA, MARGIN = 0.05, 0.05


class Sizes(NamedTuple):
    """Simulated decisions per figure."""

    alike: dict[int, int]
    """By the number of candidates."""
    inferior: int
    rivals: int
    raced: int
    winners: int
    compressed: int


QUICK = Sizes(alike={1: 8000, 5: 2000, 20: 600}, inferior=4000, rivals=1000, raced=400, winners=300, compressed=120)
FULL = Sizes(alike={1: 60_000, 5: 20_000, 20: 6000}, inferior=60_000, rivals=20_000, raced=6000, winners=4000, compressed=2000)


async def measure(quick: bool, only: str | None = None) -> list[Figure]:
    sizes = QUICK if quick else FULL
    print(f"seeds: {SEEDS}; decisions: {sizes._asdict()}")
    return [figure for name, part in PARTS.items() if only in (None, name) for figure in part(sizes, quick)]


def alike(sizes: Sizes) -> list[Figure]:
    """Candidates that are the baseline itself, measured again: some one of them called better."""
    random = np.random.default_rng(SEEDS["A/A"])
    figures = []
    for replicates in (1, REPLICATES):
        for candidates, decisions in sizes.alike.items():
            claimed = sum(_claims_one(random, candidates, replicates) for _ in range(decisions))
            name = f"A/A, {candidates} identical x {replicates} replicates: one called better"
            figures.append(Figure(name, claimed / decisions, ALPHA))
    return figures


def _claims_one(random: np.random.Generator, candidates: int, replicates: int) -> bool:
    rates = pass_probabilities(random, SAMPLES)
    baseline = passes(random, rates, replicates) / replicates
    p_values = [sign_flip(pair(baseline, passes(random, rates, replicates) / replicates)).gain for _ in range(candidates)]
    return min(holm(p_values)) <= ALPHA


def non_inferiority(sizes: Sizes) -> list[Figure]:
    """What is accepted as not worse: identical, worse by exactly the margin, by twice the margin; and how others decide."""
    random = np.random.default_rng(SEEDS["non-inferiority"])
    figures = []
    for effect, told, at_least, at_most in (
        (0.0, "identical", 0.88, None),
        (-0.05, "-5 pp", None, 0.05),
        (-0.10, "-10 pp", None, 0.005),
    ):
        own = [_accepted(random, effect, times, sizes.inferior) for times in (BASELINE_REPLICATES, REPLICATES)]
        figures.append(Figure(f"NI accepts {told}, baseline x {BASELINE_REPLICATES}", own[0], at_most, at_least=at_least))
        figures.append(Figure(f"NI accepts {told}, baseline x {REPLICATES}", own[1], at_most))
        for name, share in _rivals(random, effect, sizes.rivals).items():
            figures.append(Figure(f"  {name} accepts {told}", share))
    figures.append(Figure("NI accepts -5 pp, a share of samples broken", _accepted_broken(random, sizes.inferior), 0.05))
    return figures


def _accepted(random: np.random.Generator, effect: float, baseline_replicates: int, decisions: int) -> float:
    accepted = 0
    for _ in range(decisions):
        rates = pass_probabilities(random, SAMPLES)
        accepted += _not_worse(random, rates, changed(rates, effect), baseline_replicates)
    return accepted / decisions


def _accepted_broken(random: np.random.Generator, decisions: int) -> float:
    accepted = 0
    for _ in range(decisions):
        rates = pass_probabilities(random, SAMPLES)
        accepted += _not_worse(random, rates, broken(random, rates, MARGIN / float(rates.mean())), BASELINE_REPLICATES)
    return accepted / decisions


def _not_worse(random: np.random.Generator, before: Array, after: Array, baseline_replicates: int) -> bool:
    baseline = passes(random, before, baseline_replicates) / baseline_replicates
    candidate = passes(random, after, REPLICATES) / REPLICATES
    return p_above(moments(pair(baseline, candidate)), -MARGIN) <= ALPHA


def _rivals(random: np.random.Generator, effect: float, decisions: int) -> dict[str, float]:
    accepted = dict.fromkeys(RULES, 0)
    for _ in range(decisions):
        rates = pass_probabilities(random, SAMPLES)
        trials = Trials(passes(random, rates, REPLICATES), passes(random, changed(rates, effect), REPLICATES), REPLICATES)
        for name, rule in RULES.items():
            accepted[name] += rule(trials, random)
    return {name: count / decisions for name, count in accepted.items()}


POPULATION = ((-0.40, -0.20), (-0.15, -0.05), (-0.02, 0.02), (0.03, 0.10))
"""Candidates in equal parts: clearly bad, bad, about equal, better; the effect is uniform in each."""


def racing(sizes: Sizes) -> list[Figure]:
    """Calls of racing over calls of full trials, and how often both decide the same."""
    random = np.random.default_rng(SEEDS["racing"])
    figures = []
    for accept, rule in (("better", "improvement"), ("not_worse", "non_inferiority")):
        spec = JudgementSpec.model_validate({"accept": accept, "rule": rule, "racing": Racing()})
        races = [_race(random, spec, POPULATION[place % len(POPULATION)]) for place in range(sizes.raced)]
        bad = races[:: len(POPULATION)]
        figures += [
            Figure(f"racing for {accept}: calls, mixed candidates", _mean([used for used, _ in races]), 0.5),
            Figure(f"racing for {accept}: same decisions", _mean([same for _, same in races]), at_least=0.98),
            Figure(f"racing for {accept}: calls, clearly bad ones", _mean([used for used, _ in bad]), 0.2),
        ]
    return figures


def _race(random: np.random.Generator, spec: JudgementSpec, effects: tuple[float, float]) -> tuple[float, bool]:
    """The share of the samples used, and whether the decision is that of the full trial."""
    before = pass_probabilities(random, SAMPLES)
    after = changed(before, random.uniform(*effects))
    baseline = list(passes(random, before, REPLICATES) / REPLICATES)
    candidate = list(passes(random, after, REPLICATES) / REPLICATES)
    [full] = judge([compare(baseline, candidate, spec=spec)], spec)
    wins = {Verdict.BETTER} if spec.accept == "better" else {Verdict.BETTER, Verdict.NOT_WORSE}
    block = (spec.racing or Racing()).block
    for seen in range(block, SAMPLES, block):
        look = race(baseline[:seen], candidate[:seen], planned=SAMPLES, spec=spec)
        if not look.go_on:
            return seen / SAMPLES, (look.reason == "win") == (full.verdict in wins)
    return 1.0, True


def best_of_many(sizes: Sizes) -> list[Figure]:
    """The best of 50 candidates that are all as good: what selection promises, and what confirmation reports."""
    random = np.random.default_rng(SEEDS["best of 50"])
    spec, rate, candidates, samples = JudgementSpec(), 0.7, 50, 100
    selection, confirmed, covered, claimed = [], [], 0, 0
    for _ in range(sizes.winners):
        baseline = random.random(samples) < rate
        tried = random.random((candidates, samples)) < rate
        selection.append(float(tried.mean(axis=1).max()) - rate)
        winner, untouched = random.random(samples) < rate, random.random(samples) < rate
        confirmed.append(float(winner.mean()) - rate)
        [judged] = judge([compare(list(untouched.astype(float)), list(winner.astype(float)), spec=spec)], spec)
        covered += judged.evidence.low <= 0.0 <= judged.evidence.high
        claimed += judged.verdict is Verdict.BETTER
        assert len(baseline) == samples
    error = 1.96 * float(np.std(confirmed)) / math.sqrt(sizes.winners)
    return [
        Figure("best of 50: optimism of the selection score", _mean(selection), unit="of 1"),
        Figure("best of 50: optimism after confirmation", abs(_mean(confirmed)), error, unit="of 1"),
        Figure("best of 50: the confirmed interval holds the truth", covered / sizes.winners, at_least=0.93),
        Figure("best of 50: the winner called better", claimed / sizes.winners, ALPHA),
    ]


SAVED = {"noisy": 0.6, "steady": 0.85}
"""The least share of the tokens that can be saved for nothing."""


def compression(sizes: Sizes) -> list[Figure]:
    """Tokens saved, regressions shipped and calls spent, where it is known what every cut does."""
    figures = []
    for name, world in WORLDS.items():
        random = np.random.default_rng(SEEDS["compression"])
        prompts = [draw_prompt(random) for _ in range(sizes.compressed)]
        own = [by_ratchet(random, prompt, world) for prompt in prompts]
        other = [by_document_000(random, prompt, world) for prompt in prompts]
        calls = _mean([one.calls for one in own])
        figures += [
            Figure(f"compress, {name}: tokens saved", _mean([one.saved for one in own]), at_least=SAVED[name]),
            Figure(f"  000, {name}: tokens saved", _mean([one.saved for one in other])),
            Figure(f"compress, {name}: regressions shipped", _mean([one.harm >= MARGIN for one in own]), 0.05),
            Figure(f"  000, {name}: regressions shipped", _mean([one.harm >= MARGIN for one in other])),
            Figure(f"compress, {name}: calls", calls / 1000, unit="thousand"),
            Figure(f"  000, {name}: calls", _mean([one.calls for one in other]) / 1000, unit="thousand"),
        ]
    return figures


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


PARTS: dict[str, Callable[[Sizes, bool], list[Figure]]] = {
    "alike": lambda sizes, _: alike(sizes),
    "non_inferiority": lambda sizes, _: non_inferiority(sizes),
    "racing": lambda sizes, _: racing(sizes),
    "best_of_many": lambda sizes, _: best_of_many(sizes),
    "compression": lambda sizes, _: compression(sizes),
    "error_rates": lambda _, quick: error_rates(quick),
    "whole_runs": lambda _, quick: whole_runs(quick),
    "confirmations": lambda _, quick: confirmations(quick),
}


if __name__ == "__main__":
    main("Judgement: error rates, and what they cost", measure, parts=list(PARTS))
