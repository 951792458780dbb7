"""A winner that is confirmed on the samples it was chosen on: no luck of the choice is part of the figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ratchet.optimizer import Direction
from workflows.model.measured_parts import MeasuredPart
from workflows.model.spec.judgement import Evidence, Judged, JudgementSpec, Verdict
from workflows.rules.decisions.verdicts import judge
from workflows.rules.statistics import compare
from workflows.rules.statistics.cross_fit import cross_fit, search_cross_fitted

IMPROVEMENT = JudgementSpec()
SHORTER = JudgementSpec(rule="non_inferiority", accept="shorter", margin=0.2)
Array = NDArray[np.float64]


def world(random: np.random.Generator, samples: int = 24, candidates: int = 12, gain: float = 0.0) -> tuple[Array, Array]:
    """A deterministic target: each candidate mends some samples and breaks as many, the first mends more of them."""
    baseline = (random.random(samples) < 0.6).astype(np.float64)
    mended, broken = random.random((samples, candidates)) < 0.3, random.random((samples, candidates)) < 0.2
    others = np.where(baseline[:, None] > 0, ~broken, mended).astype(np.float64)
    others[:, 0] = np.where(random.random(samples) < gain, 1.0, others[:, 0])
    return baseline, others


def naive(baseline: Array, others: Array, spec: JudgementSpec = IMPROVEMENT) -> Evidence:
    """The best, judged by the very answers it was chosen for."""
    return compare(list(baseline), list(others[:, others.mean(axis=0).argmax()]), spec=spec)


def fitted(baseline: Array, others: Array, spec: JudgementSpec = IMPROVEMENT, shorter_by: list[int] | None = None) -> Judged:
    evidence = naive(baseline, others, spec)
    columns = [list(column) for column in others.T]
    found = cross_fit(evidence, list(baseline), columns, spec=spec, shorter_by=shorter_by, seed=3)
    return judge([found], spec)[0]


def test_the_best_of_many_equals_is_hardly_ever_called_better() -> None:
    random = np.random.default_rng(5)
    worlds = [world(random, samples=40, candidates=20) for _ in range(80)]
    claimed = sum(fitted(*one).verdict is Verdict.BETTER for one in worlds)
    naively = sum(judge([naive(*one)], IMPROVEMENT)[0].verdict is Verdict.BETTER for one in worlds)
    assert claimed <= 6 < naively / 2, (claimed, naively)


def test_a_true_gain_is_found_and_its_interval_is_above_zero() -> None:
    random = np.random.default_rng(6)
    found = [fitted(*world(random, samples=40, gain=0.7)) for _ in range(20)]
    assert sum(one.verdict is Verdict.BETTER for one in found) >= 16
    assert all(one.evidence.low <= one.evidence.effect <= one.evidence.high for one in found)
    assert all((one.evidence.bound > 0) or one.verdict is not Verdict.BETTER for one in found)


def test_what_is_expected_of_the_figure_is_the_truth_while_the_best_score_promises_more() -> None:
    random = np.random.default_rng(7)
    worlds = [world(random) for _ in range(60)]
    assert np.mean([naive(*one).effect for one in worlds]) > 0.12
    assert abs(np.mean([fitted(*one).evidence.effect for one in worlds])) < 0.04


def test_the_same_seed_gives_the_same_figure_and_minimizing_turns_it_over() -> None:
    baseline, others = world(np.random.default_rng(8), gain=0.6)
    assert fitted(baseline, others) == fitted(baseline, others)
    evidence, turned = naive(baseline, others), [list(1 - column) for column in others.T]
    found = cross_fit(evidence, list(1 - baseline), turned, spec=IMPROVEMENT, direction=Direction.MINIMIZE, seed=3)
    assert found.effect == pytest.approx(fitted(baseline, others).evidence.effect)
    assert found.mean == pytest.approx(1 - fitted(baseline, others).evidence.mean)


def test_copies_count_once_and_are_never_on_both_sides() -> None:
    baseline, others = world(np.random.default_rng(9), samples=12)
    twice = [list(np.repeat(column, 2)) for column in others.T]
    clusters = [place // 2 for place in range(24)]
    repeated = list(np.repeat(baseline, 2))
    evidence = compare(repeated, twice[0], spec=IMPROVEMENT, clusters=clusters)
    found = cross_fit(evidence, repeated, twice, spec=IMPROVEMENT, clusters=clusters, seed=3)
    once = fitted(baseline, others).evidence
    assert (found.n, found.merged_from) == (12, 24)
    assert found.effect == pytest.approx(once.effect)
    assert found.p_better == once.p_better


def test_samples_that_a_race_left_out_say_nothing() -> None:
    baseline, others = world(np.random.default_rng(10), samples=30, gain=0.9)
    raced = [1.0, 1.0, *[None] * 28]
    columns = [list(column) for column in others.T]
    evidence = naive(baseline, others)
    without = cross_fit(evidence, list(baseline), columns, spec=IMPROVEMENT, seed=3)
    with_one = cross_fit(evidence, list(baseline), [*columns, raced, [None] * 30], spec=IMPROVEMENT, seed=3)
    assert (with_one.effect, with_one.mean) == (without.effect, without.mean)


def test_too_few_samples_are_refused() -> None:
    baseline, others = world(np.random.default_rng(11), samples=3)
    assert "too few" in (fitted(baseline, others).evidence.refused or "")


def test_of_shorter_ones_the_shortest_is_taken_that_does_no_harm() -> None:
    baseline = np.array([1.0] * 40)
    harmless, harmful = baseline.copy(), np.array([0.0, 1.0] * 20)
    judged = fitted(baseline, np.stack([harmful, harmless], axis=1), SHORTER, shorter_by=[90, 10])
    assert (judged.verdict, judged.accepted, judged.evidence.effect) == (Verdict.NOT_WORSE, True, 0.0)
    longer = fitted(baseline, np.stack([harmless], axis=1), SHORTER, shorter_by=[-10])
    assert longer.evidence.effect == 0.0


@dataclass(frozen=True)
class Trial:
    config_hash: str
    sample_means: list[float | None]
    round: int = 1

    @property
    def configuration(self) -> dict[str, Any]:
        return {}


def part_of(config_hash: str, first: int, count: int | None, *, round: int = 1) -> MeasuredPart:
    return MeasuredPart(config_hash=config_hash, round=round, first=first, count=count)


def judged_by(baseline: Array, means: list[float | None], *parts: MeasuredPart, clusters: list[int] | None = None) -> Judged:
    one, other = Trial("baseline", [float(score) for score in baseline], round=0), Trial("kept", means)
    evidence = compare(one.sample_means, means, spec=IMPROVEMENT)
    found = search_cross_fitted(
        evidence,
        one,
        [other],
        parts=parts,
        spec=IMPROVEMENT,
        direction=Direction.MAXIMIZE,
        weights=None,
        clusters=clusters,
        seed=3,
    )
    return judge([found], IMPROVEMENT)[0]


def test_what_did_well_on_a_part_is_not_called_better_by_that_part() -> None:
    """Of many equals the one with the luckiest first ten answers is measured on all thirty."""
    random, part = np.random.default_rng(11), part_of("kept", 0, 10)
    told: list[tuple[Verdict, Verdict, float]] = []
    for _ in range(100):
        baseline, others = ((random.random((30, count)) < 0.5).astype(np.float64) for count in (1, 200))
        luckiest = others[:, others[:10].sum(axis=0).argmax()]
        every, other = (judged_by(baseline[:, 0], list(luckiest), *parts) for parts in ((), (part,)))
        told.append((every.verdict, other.verdict, other.evidence.effect))
    naively, claimed = (sum(one[which] is Verdict.BETTER for one in told) for which in (0, 1))
    assert claimed <= 5 < naively / 2, (claimed, naively)
    assert abs(float(np.mean([effect for *_, effect in told]))) < 0.06


def test_a_part_that_is_measured_later_or_of_something_else_takes_nothing_away() -> None:
    baseline, means = np.zeros(20), [1.0] * 12 + [0.0] * 8
    whole = judged_by(baseline, list(means))
    later, elsewhere = part_of("kept", 0, 12, round=2), part_of("other", 0, 12)
    assert whole.verdict is Verdict.BETTER
    assert judged_by(baseline, list(means), later, elsewhere) == whole
    assert judged_by(baseline, list(means), part_of("kept", 0, 12)).evidence.effect == 0.0


def test_copies_of_what_a_part_looked_at_are_left_out_as_well_and_what_looked_at_all_shows_nothing() -> None:
    baseline, means = np.zeros(16), [1.0, 0.0] * 8
    pairs = [place % 8 for place in range(16)]
    found = judged_by(baseline, list(means), part_of("kept", 0, 4), clusters=pairs)
    assert found.evidence.effect > 0
    assert found.evidence.better == 2  # of the four contents that are left, those of places 4 and 6
    assert judged_by(baseline, list(means), part_of("kept", 0, None)).evidence.effect == 0.0
