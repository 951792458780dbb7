"""The rule task is the published one, and a comparison on it says worse only of what is worse."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.quality import significance_of_being_worse, worse_than_any
from benchmarks.quality_ours import run
from benchmarks.quality_world import OPENING, TASK, TUNING, VARIANTS, RuleWorld, rules_of


def prompt(*rules: int) -> str:
    return "\n".join([OPENING, *(f"Rule {rule}: always mind it." for rule in rules)])


@pytest.mark.parametrize(
    ("rules", "chance"),
    [
        ((), 0.25),
        ((3,), 0.25),
        ((3, 7), 0.92),
        ((3, 7, 24, 30), 0.86),
        (tuple(range(16)), 0.92),
        (tuple(range(18)), 0.88),
    ],
)
def test_a_sample_passes_when_its_rules_are_there_less_what_does_harm_and_what_is_too_much(
    rules: tuple[int, ...], chance: float
) -> None:
    assert RuleWorld(1).chance(frozenset(rules), frozenset({3, 7})) == pytest.approx(chance)


def test_samples_need_one_to_three_useful_rules_and_there_are_as_many_as_published() -> None:
    needs = RuleWorld(1).needs
    assert {split: len(samples) for split, samples in needs.items()} == {"train": 100, "validation": 100, "test": 200}
    assert {len(sample) for samples in needs.values() for sample in samples} == {1, 2, 3}
    assert max(rule for samples in needs.values() for sample in samples for rule in sample) < 24


def test_feedback_names_what_is_missing_seven_times_in_ten_and_otherwise_anything() -> None:
    world, noise = RuleWorld(1), Random(1)
    told = [world.call(OPENING, "train", 0, noise) for _ in range(4000)]
    failed = [feedback for score, feedback in told if not score]
    named = sum(1 for feedback in failed if any(f"rule {rule}." in feedback for rule in world.needs["train"][0]))
    assert len(failed) / len(told) == pytest.approx(0.75, abs=0.03)
    assert named / len(failed) == pytest.approx(0.7 + 0.3 * len(world.needs["train"][0]) / 36, abs=0.03)


def test_the_reflector_adds_two_at_most_and_makes_its_mistakes() -> None:
    world, random = RuleWorld(1), Random(1)
    written = [
        rules_of(world.reflect(prompt(1, 2), ["Consider rule 5.", "Consider rule 6.", "Consider rule 7."], random))
        for _ in range(4000)
    ]
    useful = [{rule for rule in rules if rule < 24} - {1, 2} for rules in written]
    assert {len(rules) for rules in useful} <= {1, 2}
    assert sum(1 for rules in written if max(rules) >= 24) / 4000 == pytest.approx(0.15, abs=0.02)
    assert sum(1 for rules in written if not {1, 2} <= rules) / 4000 == pytest.approx(0.25, abs=0.02)


def test_rewritten_prompts_share_no_line() -> None:
    world, random = RuleWorld(1, VARIANTS["rewritten"]), Random(1)
    one, other = (set(world.reflect(prompt(1, 2), [], random).split("\n")) - {OPENING} for _ in range(2))
    assert one and other and not one & other


def test_settings_are_chosen_on_other_constants_than_those_reported() -> None:
    assert TUNING not in VARIANTS.values()
    assert TUNING.capacity != TASK.capacity and TUNING.hit != TASK.hit


def test_a_run_keeps_to_its_budget_and_is_the_same_again() -> None:
    refine = {"name": "refine", "proposer": {"kind": "model", "model": "simulated"}}
    world = RuleWorld(3)
    assert run(world, 3, 450, refine) == run(RuleWorld(3), 3, 450, refine)
    assert run(world, 3, 450, refine).calls == 400


def test_worse_is_significant_only_where_it_is_worse() -> None:
    theirs = [0.5, 0.6, 0.55, 0.7, 0.52, 0.61]
    assert significance_of_being_worse([value - 0.1 + place / 100 for place, value in enumerate(theirs)], theirs) < 0.05
    assert significance_of_being_worse([value + 0.1 - place / 100 for place, value in enumerate(theirs)], theirs) > 0.95
    assert significance_of_being_worse(theirs, theirs) == 1.0


def test_the_luckiest_of_many_equals_is_not_called_better() -> None:
    random, times = Random(1), 400
    found = hindsight = 0
    for _ in range(times):
        ours, *rivals = [[random.gauss(0, 1) for _ in range(20)] for _ in range(8)]
        best = max(rivals, key=sum)
        hindsight += significance_of_being_worse(ours, best) < 0.05
        found += worse_than_any(ours, rivals) < 0.05
    assert found / times <= 0.06 < 0.15 < hindsight / times
    assert worse_than_any([value - 2 for value in ours], rivals) < 0.05
