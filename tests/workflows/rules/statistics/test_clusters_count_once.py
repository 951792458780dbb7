"""Samples that count as one, in races, under the strict rule, in constraints, and in what a run may claim."""

from __future__ import annotations

from random import Random

import pytest

from workflows.model.spec.judgement import Constraint, JudgementSpec, RaceDecision, Racing
from workflows.rules.decisions.verdicts import explain, judge
from workflows.rules.statistics.comparison import compare
from workflows.rules.statistics.constraints import measured
from workflows.rules.statistics.races import race
from workflows.rules.statistics.strict import strict_counts
from workflows.rules.statistics.trial_answers import TrialAnswers

CONTENTS, COPIES = 40, 6
SPEC = JudgementSpec(racing=Racing(block=16))
GATHERED = [content for content in range(CONTENTS) for _ in range(COPIES)]


def copied(scores: list[float]) -> list[float]:
    """Every content answered alike, as often as it is there."""
    return [score for score in scores for _ in range(COPIES)]


def looked_at(baseline: list[float], candidate: list[float], until: int, clusters: list[int] | None) -> RaceDecision:
    return race(baseline[:until], candidate[:until], planned=len(candidate), spec=SPEC, clusters=clusters)


def test_a_race_counts_whole_contents_and_those_that_are_planned() -> None:
    random = Random(1)
    baseline, candidate = ([float(random.random() < 0.5) for _ in range(CONTENTS)] for _ in range(2))
    look = looked_at(copied(baseline), copied(candidate), 64, GATHERED)
    once = race(baseline[:10], candidate[:10], planned=CONTENTS, spec=JudgementSpec(racing=Racing(block=10)))
    assert (look.samples, look.planned) == (10, CONTENTS)  # of the eleventh content two copies are still to come
    assert look.effect == once.effect


def test_the_copies_of_a_few_contents_never_end_a_race() -> None:
    """The candidate loses four contents of the first six: 36 pairs seem certain, six of forty are not."""
    baseline, candidate = [1.0] * 4 + [0.0] * 36, [0.0] * 4 + [1.0, 0.0] * 18
    assert not looked_at(copied(baseline), copied(candidate), 36, None).go_on
    assert looked_at(copied(baseline), copied(candidate), 36, GATHERED).go_on


def test_a_race_that_has_seen_no_whole_content_goes_on() -> None:
    clusters = [n % 4 for n in range(40)]
    look = race([1.0] * 16, [0.0] * 16, planned=40, spec=SPEC, clusters=clusters)
    assert (look.go_on, look.samples, look.planned) == (True, 0, 4)


def test_a_race_is_told_in_what_it_counts() -> None:
    look = looked_at(copied([1.0] * CONTENTS), copied([0.0] * CONTENTS), 160, GATHERED)
    assert look.words.startswith("certainly worse after 26 of 40 clusters of samples: ")


def test_clusters_of_other_samples_than_planned_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="16 samples say to which cluster they belong, and 40 are planned"):
        race([1.0] * 16, [0.0] * 16, planned=40, spec=SPEC, clusters=[0] * 16)


def test_an_identical_candidate_is_rarely_called_better_however_often_its_contents_are_copied() -> None:
    """Copies that are answered alike: as many independent pairs they would be significant in a third of all decisions."""
    random, called, naively = Random(7), 0, 0
    for _ in range(300):
        baseline, candidate = (copied([float(random.random() < 0.7) for _ in range(12)]) for _ in range(2))
        clusters = [content for content in range(12) for _ in range(COPIES)]
        called += judge([compare(baseline, candidate, spec=SPEC, clusters=clusters)], SPEC)[0].verdict.value == "better"
        naively += judge([compare(baseline, candidate, spec=SPEC)], SPEC)[0].verdict.value == "better"
    assert called <= 300 * 0.05
    assert naively > 300 * 0.15


def test_the_sentence_says_how_many_samples_count_as_how_many() -> None:
    baseline, candidate = copied([0.0] * 20 + [1.0] * 20), copied([1.0] * 40)
    [judged] = judge([compare(baseline, candidate, spec=SPEC, clusters=GATHERED)], SPEC)
    assert "on 240 samples that count as 40 (20 better, 0 worse)" in explain(judged, SPEC)


def test_by_ranks_copies_are_one_episode_and_that_is_told() -> None:
    spec = JudgementSpec(test="mann_whitney")
    found = compare(copied([0.0] * CONTENTS), copied([1.0] * CONTENTS), spec=spec, clusters=GATHERED)
    assert (found.n, found.merged_from) == (CONTENTS, CONTENTS * COPIES)


def test_the_strict_rule_counts_a_content_once_and_sees_each_of_its_samples() -> None:
    reference, candidate = [(1, 1), (1, 1), (0, 1), (1, 1)], [(0, 1), (0, 1), (1, 1), (1, 1)]
    assert strict_counts(reference, candidate) == (3, 2)
    assert strict_counts(reference, candidate, [0, 0, 2, 3]) == (2, 1)
    assert strict_counts([(1, 1), (0, 1)], [(0, 1), (0, 1)], [0, 0]) == (1, 1)  # what a group always passed is not lost unseen


def test_the_mean_of_a_constraint_counts_a_content_once() -> None:
    constraint = Constraint.model_validate("cost <= 0.5")
    costs = [0.1, 0.2, 0.9]
    alone = TrialAnswers([1.0] * 3, measures={"cost": list(enumerate(costs))})
    often = [(place, costs[place % 3 if place < 3 else 2]) for place in range(9)]
    together = TrialAnswers([1.0] * 9, measures={"cost": often}, clusters=[0, 1, *[2] * 7])
    assert measured(constraint, together) == pytest.approx(measured(constraint, alone))
