"""The permutation test of single answers, against brute force, and its rates where both sides answered unequally often."""

from __future__ import annotations

import itertools
import math
import random as chance
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ratchet.optimizer import Direction
from workflows.model.spec.judgement import JudgementSpec, Verdict
from workflows.rules.decisions.verdicts import judge
from workflows.rules.statistics import compare
from workflows.rules.statistics.answer_deals import Steps, distribution, random_sums
from workflows.rules.statistics.answer_permutation import exchange, permutation_test
from workflows.rules.statistics.gain_pairs import Pairs, pair
from workflows.rules.statistics.sign_flip import sign_flip

Answers = list[list[float]]
SPEC = JudgementSpec()


def paired(baseline: Answers, candidate: Answers, weights: list[float] | None = None) -> Pairs:
    return pair(means_of(baseline), means_of(candidate), weights, singles=(baseline, candidate))


def means_of(answers: Answers) -> list[float | None]:
    return [float(np.mean(given)) for given in answers]


def by_brute_force(baseline: Answers, candidate: Answers, weights: Sequence[float]) -> tuple[float, float]:
    """Every way to deal the answers to every sample."""
    ways = [_gains(one, other) for one, other in zip(baseline, candidate, strict=True)]
    share = [weight / sum(weights) for weight in weights]
    sums = np.array([sum(map(math.prod, zip(share, dealt, strict=True))) for dealt in itertools.product(*ways)])
    observed = sum(w * (np.mean(c) - np.mean(b)) for w, b, c in zip(share, baseline, candidate, strict=True))
    return float((sums >= observed - 1e-9).mean()), float((sums <= observed + 1e-9).mean())


def _gains(baseline: list[float], candidate: list[float]) -> list[float]:
    every, own = [*candidate, *baseline], len(candidate)
    if len(baseline) == own:
        gain = float(np.mean(candidate) - np.mean(baseline))
        return [gain, -gain]
    chosen = [set(places) for places in itertools.combinations(range(len(every)), own)]
    return [
        float(np.mean([every[p] for p in mine]) - np.mean([v for p, v in enumerate(every) if p not in mine])) for mine in chosen
    ]


SCORES = {
    "passes": some.sampled_from([0.0, 1.0]),
    "grades": some.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    "any": some.floats(0, 1).map(lambda value: round(value, 3)),
}


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize(("often", "own", "samples"), [(5, 1, 4), (3, 1, 5), (3, 2, 4), (1, 3, 5), (2, 4, 3)])
def test_the_p_values_are_those_of_every_way_to_deal_the_answers(scores: str, often: int, own: int, samples: int) -> None:
    @settings(deadline=None, max_examples=12)
    @given(some.data())
    def holds(data: some.DataObject) -> None:
        baseline, candidate = [
            data.draw(some.lists(some.lists(SCORES[scores], min_size=n, max_size=n), min_size=samples, max_size=samples))
            for n in (often, own)
        ]
        weights = data.draw(
            some.sampled_from([[1.0] * samples, [1.0, 2.0, 3.0, 1.0, 2.0][:samples], [1.1, 0.7, 2.3, 1, 1][:samples]])
        )
        found = exchange(paired(baseline, candidate, weights))
        assert (found.gain, found.loss) == pytest.approx(by_brute_force(baseline, candidate, weights))

    holds()


def test_samples_with_missing_answers_are_dealt_by_what_each_has() -> None:
    baseline, candidate = [[1.0, 1.0, 0.0], [1.0], [0.0, 1.0], [0.0]], [[1.0], [0.0], [1.0, 1.0], [1.0, 1.0]]
    found = exchange(paired(baseline, candidate))
    assert (found.gain, found.loss) == pytest.approx(by_brute_force(baseline, candidate, [1] * 4))


@given(some.lists(some.tuples(some.integers(0, 1), some.integers(0, 1)), min_size=1, max_size=40))
def test_one_answer_each_gives_mcnemars_exact_test_as_before(answers: list[tuple[int, int]]) -> None:
    baseline, candidate = [[[float(value)] for value in side] for side in zip(*answers, strict=True)]
    dealt = paired(baseline, candidate)
    assert permutation_test(dealt, 1) == sign_flip(dealt, 1)
    assert dealt.units is None  # nothing depends on single answers


def test_the_exact_distribution_of_many_samples_is_what_random_deals_find() -> None:
    random = np.random.default_rng(7)
    baseline, candidate = (random.random((300, 5)) < 0.8).astype(float), (random.random((300, 3)) < 0.84).astype(float)
    exact = exchange(paired(baseline.tolist(), candidate.tolist()))
    off_the_grid = exchange(paired(baseline.tolist(), candidate.tolist(), (1 + random.random(300) / 1e6).tolist()))
    assert (exact.method, off_the_grid.method) == (
        "exact permutation test of answers",
        "permutation test of answers, 20,000 deals",
    )
    assert off_the_grid.gain == pytest.approx(exact.gain, abs=0.015)


def test_a_distribution_is_the_same_whether_samples_are_added_alone_or_together() -> None:
    steps, chances = np.array([0, 2, 5]), np.array([0.5, 0.3, 0.2])
    together, alone = distribution([Steps(steps, chances, 7)]), distribution([Steps(steps, chances, 1)] * 7)
    assert together is not None and alone is not None
    assert together == pytest.approx(alone) and together.sum() == pytest.approx(1)


def test_sums_of_blocks_are_distributed_like_sums_of_samples() -> None:
    random = np.random.default_rng(2)
    table = random.random((600, 6))
    found = random_sums([table], random)
    spread = math.sqrt(float(table.var(axis=1).sum()))
    assert float(found.std()) == pytest.approx(spread, rel=0.05)
    assert float(found.mean()) == pytest.approx(float(table.mean(axis=1).sum()), abs=0.1 * spread)


DESIGNS = [(0.95, 20, 5, 1), (0.95, 30, 3, 1), (0.05, 20, 5, 1), (0.9, 20, 10, 3)]


@pytest.mark.parametrize(("rate", "samples", "often", "own"), DESIGNS)
def test_an_identical_candidate_is_called_better_or_worse_no_more_often_than_stated(
    rate: float, samples: int, often: int, own: int
) -> None:
    """With flips of signs alone .187, .109, .18 and .08 of the decisions were wrong, one way or the other."""
    random, decisions = np.random.default_rng(12), 600
    verdicts = []
    for _ in range(decisions):
        baseline, candidate = [(random.random((samples, n)) < rate).astype(float) for n in (often, own)]
        verdicts.append(_verdict(baseline, candidate))
    for wrong in (Verdict.BETTER, Verdict.WORSE):
        assert verdicts.count(wrong) / decisions <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / decisions)


def _verdict(baseline: np.ndarray, candidate: np.ndarray, spec: JudgementSpec = SPEC) -> Verdict:
    singles = (baseline.tolist(), candidate.tolist())
    evidence = compare(list(baseline.mean(axis=1)), list(candidate.mean(axis=1)), spec=spec, singles=singles)
    return judge([evidence], spec)[0].verdict


def test_a_candidate_that_changes_as_many_samples_for_better_as_for_worse_is_not_called_better() -> None:
    """Which dealing out answers alone would do in 15 to 20 % of decisions: every answer to a changed sample is another."""
    random, decisions, samples = np.random.default_rng(3), 500, 100
    wrong = 0
    for _ in range(decisions):
        before = random.random(samples) < 0.5
        after = before ^ (random.random(samples) < 0.15)
        wrong += _verdict(np.repeat(before[:, None], 10, 1) * 1.0, np.repeat(after[:, None], 3, 1) * 1.0) is Verdict.BETTER
    assert wrong / decisions <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / decisions)


def test_ranks_of_means_over_unequal_numbers_of_answers_are_not_compared() -> None:
    random, decisions, spec = np.random.default_rng(4), 400, JudgementSpec(test="mann_whitney")
    verdicts = []
    for _ in range(decisions):
        baseline, candidate = [(random.random((30, n)) < 0.95).astype(float) for n in (5, 1)]
        verdicts.append(_verdict(baseline, candidate, spec))
    assert verdicts.count(Verdict.BETTER) / decisions <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / decisions)


def test_copies_of_a_sample_are_one_piece_of_evidence() -> None:
    baseline, candidate = [0.0, 1.0, 0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    once = compare(baseline, candidate, spec=SPEC)
    copied = compare(baseline * 6, candidate * 6, spec=SPEC, clusters=[*range(6)] * 6)
    assert copied == once.model_copy(update={"merged_from": 36})
    assert compare(baseline * 6, candidate * 6, spec=SPEC).p_better < 0.001 < once.p_better


def test_copies_count_once_with_unequal_replicates_and_by_ranks_too() -> None:
    random = chance.Random(1)
    baseline, candidate = ([[float(random.random() < 0.7) for _ in range(n)] for _ in range(12)] for n in (5, 2))
    for test in ("paired", "mann_whitney"):
        spec = JudgementSpec.model_validate({"test": test})
        found = []
        for copies in (1, 4):
            singles, clusters = (baseline * copies, candidate * copies), [*range(12)] * copies
            means = means_of(singles[0]), means_of(singles[1])
            found.append(compare(*means, spec=spec, singles=singles, clusters=clusters))
        assert found[0].p_better == pytest.approx(found[1].p_better) and found[0].n == found[1].n == 12


def test_the_direction_turns_the_answers_around() -> None:
    baseline, candidate = [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]], [[0.0], [0.0], [1.0], [0.0]]
    means = means_of(baseline), means_of(candidate)
    up, down = (
        compare(*means, spec=SPEC, singles=(baseline, candidate), direction=direction)
        for direction in (Direction.MAXIMIZE, Direction.MINIMIZE)
    )
    assert (up.p_better, up.p_worse) == pytest.approx((down.p_worse, down.p_better))
