"""Error rates in the designs that a spec can express: how often a candidate that is the baseline itself is called otherwise,
and how often one that is worse by exactly the margin is accepted.

Every rate is shown between its lower and upper 99.9 % bound (Clopper and Pearson's), and the lower bound is held against what
the spec promises: a rule that keeps its rate passes, by chance of the draws, in all but one of a thousand cells.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
from scipy.special import betaincinv

from benchmarks.figures import Figure
from benchmarks.judgement_designs import Claims, Design, at, beta, claims, continuous, graded, lognormal, steadily
from benchmarks.judgement_worlds import Array
from workflows.model.spec.judgement import JudgementSpec, MustPass, Racing, Verdict
from workflows.rules.decisions.verdicts import judge
from workflows.rules.statistics import broken_must_pass, evidence_of, false_rejection_rate, race, strict_counts
from workflows.rules.statistics.answer_permutation import permutation_test
from workflows.rules.statistics.gain_pairs import pair
from workflows.rules.statistics.sameness import answered_alike
from workflows.rules.statistics.sign_flip import sign_flip

ALPHA, SEED = 0.05, 506
MANY = 40
SURE = 0.999


def rate(name: str, count: int, of: int, at_most: float | None = ALPHA) -> Figure:
    """A share of decisions with its bounds, the lower of which is held against the target."""
    low = float(betaincinv(count, of - count + 1, 1 - SURE)) if count else 0.0
    high = float(betaincinv(count + 1, of - count, SURE)) if count < of else 1.0
    return Figure(name, count / of, at_most, low=low, high=high)


def exponential(random: np.random.Generator, samples: int) -> Array:
    """Weights of which some are many times others."""
    return random.exponential(1.0, samples) + 0.05


def one_heavy(random: np.random.Generator, samples: int) -> Array:
    """One sample weighs a third of all."""
    return np.where(np.arange(samples) == 0, samples / 2, 1.0)


ALIKE = JudgementSpec(margin=0.0)
RANKS = JudgementSpec(margin=0.0, test="mann_whitney")

ALIKE_QUICK = (
    Design("8 samples, 10 x 1, .5", 8, 10, 1, at(0.5), spec=ALIKE),
    Design("20 samples, 5 x 1, .95", 20, 5, 1, at(0.95), spec=ALIKE),
    Design("30 samples, 3 x 1, .02", 30, 3, 1, at(0.02), spec=ALIKE),
    Design("50 samples, 5 x 1, Beta(8, 1.2), 5 candidates", 50, 5, 1, candidates=5, spec=ALIKE),
    Design("30 samples, 3 x 2, exponential weights", 30, 3, 2, weights=exponential, spec=ALIKE),
    Design("40 samples, copies by 4, answered alike", 40, 5, 1, copies=4, alike=True, spec=ALIKE),
    Design("20 samples, 5 x 1, grades", 20, 5, 1, answers=graded, spec=ALIKE),
    Design("30 episodes, 5 x 1, by ranks, .9", 30, 5, 1, at(0.9), spec=RANKS),
)
ALIKE_FULL = (
    *ALIKE_QUICK,
    *(
        Design(f"{n} samples, {b} x {c}, {told}", n, b, c, rates, spec=ALIKE)
        for n in (8, 20, 50, 200)
        for b, c in ((1, 1), (3, 3), (3, 1), (5, 2), (10, 1), (10, 3), (1, 3))
        for told, rates in ((".02", at(0.02)), (".5", at(0.5)), (".95", at(0.95)), ("Beta(8, 1.2)", beta(8, 1.2)))
    ),
    Design("2000 samples, 5 x 1, .98", 2000, 5, 1, at(0.98), spec=ALIKE),
    Design("50 samples, 5 x 1, .95, 20 candidates", 50, 5, 1, at(0.95), candidates=20, spec=ALIKE),
    Design("50 samples, 3 x 3, 20 candidates", 50, 3, 3, candidates=20, spec=ALIKE),
    Design("50 samples, 5 x 1, one heavy", 50, 5, 1, weights=one_heavy, spec=ALIKE),
    Design("60 samples, 5 x 1, copies by 3", 60, 5, 1, copies=3, spec=ALIKE),
    Design("50 samples, 5 x 2, continuous", 50, 5, 2, answers=continuous, spec=ALIKE),
    Design("30 samples, 10 x 3, lognormal", 30, 10, 3, answers=lognormal, spec=ALIKE),
    Design("8 episodes, 3 x 1, by ranks", 8, 3, 1, spec=RANKS),
    Design("100 episodes, 5 x 3, by ranks, .98", 100, 5, 3, at(0.98), spec=RANKS),
)


def not_worse(margin: float, **more: object) -> JudgementSpec:
    """Accepted is who is not worse by the margin."""
    return JudgementSpec.model_validate({"rule": "non_inferiority", "accept": "not_worse", "margin": margin, **more})


def _at_margin(n: int, baseline: int, candidate: int, margin: float, pass_rate: float, **more: object) -> Iterator[Design]:
    told = f"{n} samples, {baseline} x {candidate}, margin {margin:g} at {pass_rate:g}"
    plain = Design(told, n, baseline, candidate, at(pass_rate), spec=not_worse(margin, **more))
    yield replace(plain, name=f"{told}, all lose", effect=-margin)
    yield replace(plain, name=f"{told}, few lose", few=margin / pass_rate)


MARGIN_QUICK = (
    *_at_margin(50, 1, 1, 0.02, 0.98),
    *_at_margin(20, 5, 1, 0.02, 0.95),
    *_at_margin(59, 1, 1, 0.05, 1.0),
    *_at_margin(20, 1, 1, 0.05, 0.98, test="mann_whitney"),
)
MARGIN_FULL = (
    *MARGIN_QUICK,
    *(
        design
        for n in (8, 20, 50, 80, 200)
        for b, c in ((1, 1), (5, 1))
        for margin, pass_rate in ((0.02, 0.98), (0.02, 0.95), (0.05, 1.0), (0.1, 0.95), (0.2, 0.9), (0.3, 0.5))
        for design in _at_margin(n, b, c, margin, pass_rate)
    ),
    *(d for n in (8, 40, 100) for b in (1, 5) for d in _at_margin(n, b, 1, 0.1, 0.9, test="mann_whitney")),
    *(
        Design(f"{n} samples, 3 x 1, margin 0.1 at 0.9, {told}", n, 3, 1, at(0.9), weights=w, effect=-0.1, spec=not_worse(0.1))
        for n in (30, 100)
        for told, w in (("exponential weights", exponential), ("one heavy", one_heavy))
    ),
)


def error_rates(quick: bool) -> list[Figure]:
    """All cells."""
    return [
        *_alike(ALIKE_QUICK if quick else ALIKE_FULL, 150 if quick else 1000),
        *_margins(MARGIN_QUICK if quick else MARGIN_FULL, 150 if quick else 2500),
        *_raced(60 if quick else 2000),
        *_objectives(80 if quick else 3000),
        *_flakes(1500 if quick else 20_000),
        _strict(400 if quick else 4000),
        _repeated(50 if quick else 500),
        *_power(100 if quick else 3000),
    ]


def _alike(designs: Sequence[Design], decisions: int) -> Iterator[Figure]:
    for design, found in zip(designs, _all(designs, decisions), strict=True):
        yield rate(f"A/A, {design.name}: called better", found.better, found.decisions)
        yield rate(f"A/A, {design.name}: called worse", found.worse, found.decisions)


def _margins(designs: Sequence[Design], decisions: int) -> Iterator[Figure]:
    for design, found in zip(designs, _all(designs, decisions), strict=True):
        yield rate(f"NI, {design.name}: accepted", found.better + found.not_worse, found.decisions)


def _all(designs: Sequence[Design], decisions: int) -> list[Claims]:
    """All designs, on all cores where there are many; what each draws depends on its name alone."""
    asked = [(design, max(decisions * 100 // max(100, design.samples * design.candidates), 100)) for design in designs]
    if len(designs) < MANY:
        return [claims(design, times, SEED) for design, times in asked]
    with ProcessPoolExecutor(int(os.environ.get("BENCH_PROCESSES", os.cpu_count() or 1)), get_context("fork")) as processes:
        return list(processes.map(_claims, [design.name for design in designs], [times for _, times in asked]))


def _claims(name: str, times: int) -> Claims:
    """By name, since what draws a design's answers cannot be sent to another process."""
    return claims(next(design for design in (*ALIKE_FULL, *MARGIN_FULL) if design.name == name), times, SEED)


def _raced(trials: int) -> Iterator[Figure]:
    """Trials that are looked at after every 16 samples; a decision is that of the race, or of the full trial."""
    for told, spec, effect in (
        ("A/A raced for better", JudgementSpec(accept="better", racing=Racing()), 0.0),
        ("NI raced at the margin", not_worse(0.05, racing=Racing()), -0.05),
    ):
        for n, baseline, candidate in ((60, 5, 1), (200, 3, 3)):
            design = Design(f"{told}, {n} samples, {baseline} x {candidate}", n, baseline, candidate, effect=effect, spec=spec)
            random = np.random.default_rng([SEED, n, baseline])
            ends = [_race(design, random, place) for place in range(trials)]
            yield rate(f"{design.name}: accepted", ends.count("win"), trials)
            if not effect:
                yield rate(f"{design.name}: called worse", ends.count("worse"), trials)


def _race(design: Design, random: np.random.Generator, seed: int) -> str:
    baseline, [candidate] = design.drawn(random)
    spec, n = design.spec, design.samples
    assert spec.racing is not None and baseline.singles is not None and candidate.singles is not None
    for seen in range(spec.racing.block, n, spec.racing.block):
        look = race(
            baseline.means[:seen],
            candidate.means[:seen],
            planned=n,
            spec=spec,
            singles=(baseline.singles[:seen], candidate.singles[:seen]),
        )
        if not look.go_on:
            return {"win": "win", "regression": "worse"}.get(look.reason or "", "nothing")
    [judged] = judge([evidence_of(baseline, candidate, spec=spec, seed=seed)], spec)
    return "win" if judged.accepted else "worse" if judged.verdict is Verdict.WORSE else "nothing"


def _objectives(decisions: int) -> Iterator[Figure]:
    """A further objective, over five candidates."""
    spec = JudgementSpec.model_validate({"objectives": [{"measure": "brevity", "margin": 0.0}], "margin": 0.0})
    design = Design("a further objective, 5 candidates", 40, 3, 1, at(0.7), candidates=5)
    random = np.random.default_rng([SEED, 4])
    better = worse = 0
    for place in range(decisions):
        drawn = design.drawn(random)
        measured = [
            replace(t, measures={"brevity": [(n, v) for n, given in enumerate(t.singles or ()) for v in given]})
            for t in (drawn[0], *drawn[1])
        ]
        found = judge([evidence_of(measured[0], one, spec=spec, seed=place) for one in measured[1:]], spec)
        called = [judged.objectives["brevity"] for judged in found]
        better, worse = better + (Verdict.BETTER in called), worse + (Verdict.WORSE in called)
    yield rate(f"A/A, {design.name}: called better", better, decisions)
    yield rate(f"A/A, {design.name}: called worse", worse, decisions)


def _flakes(decisions: int) -> Iterator[Figure]:
    """Must-pass samples that fail as often as the spec says, in a candidate that is as good."""
    random = np.random.default_rng([SEED, 5])
    for flake, samples, replicates in ((0.1, 5, 5), (0.02, 20, 3)):
        rule, named = MustPass(samples=["a"], flake_rate=flake), {place: str(place) for place in range(samples)}
        before = [(replicates, replicates)] * samples
        broken = 0
        for _ in range(decisions):
            passed = random.binomial(replicates, 1 - flake, samples)
            broken += bool(broken_must_pass(before, [(int(p), replicates) for p in passed], named, rule, ALPHA))
        yield rate(f"must-pass, {samples} samples with a flake rate of {flake:g}: as good, and rejected", broken, decisions)


def _strict(decisions: int) -> Figure:
    """What the strict rule says that it costs, beside what it costs, for 5 answers of the baseline and 2 of the candidate."""
    random = np.random.default_rng([SEED, 6])
    rejected, told = 0, 0.0
    for _ in range(decisions):
        rates = random.beta(30, 1, 20)
        before, after = ([(int(p), k) for p in random.binomial(k, rates)] for k in (5, 2))
        rejected += strict_counts(before, after).broken > 0
        told += false_rejection_rate(before, after)
    found = rate("strict, 5 x 2: as good, and rejected", rejected, decisions, None)
    stated = told / decisions
    return replace(found, name=f"{found.name} (told: {stated:.3f})", at_most=stated + 0.05)


def _repeated(decisions: int) -> Figure:
    """Winners whose fresh answers are those that they were chosen for."""
    random = np.random.default_rng([SEED, 7])
    confirmed = 0
    for _ in range(decisions):
        before, [afresh] = Design("", 30, 2, 1, answers=steadily).drawn(random)
        confirmed += not answered_alike(before, afresh)
    return rate("a target that answers the same every time: confirmed with fresh answers", confirmed, decisions, 0.0)


def _power(decisions: int) -> Iterator[Figure]:
    """True gains that are found, by the flips of signs alone and by the rule as it is."""
    for n, baseline, candidate, gain in ((100, 1, 1, 0.12), (100, 3, 3, 0.08), (100, 5, 1, 0.12)):
        design = Design("", n, baseline, candidate, beta(6, 4), effect=gain)
        random = np.random.default_rng([SEED, n, candidate])
        flips = now = 0
        for place in range(decisions):
            one, [other] = design.drawn(random)
            assert one.singles is not None and other.singles is not None
            pairs = pair(one.means, other.means, singles=(one.singles, other.singles))
            flips += sign_flip(pairs, place).gain <= ALPHA
            now += permutation_test(pairs, place).gain <= ALPHA
        told = f"power, {n} samples, {baseline} x {candidate}, +{gain:g}"
        valid = baseline == candidate
        yield rate(f"  {told}: flips of signs{'' if valid else ' (which do not keep their rate)'}", flips, decisions, None)
        yield replace(rate(f"{told}: found", now, decisions, None), low=None, at_least=flips / decisions if valid else None)
