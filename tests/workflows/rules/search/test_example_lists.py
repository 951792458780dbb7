"""Few-shot examples: taken from the training samples alone, chosen better than by chance, and never more than fit."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from statistics import median
from typing import Any

import pytest

from clients.testing import Simulated, World, simulate
from ratchet._formats.canonical import canonical_json
from ratchet.plugins import Sample
from workflows.rules.search.example_pool import LONGEST_EXAMPLE, pool_of

LIST = {"change": "structured", "type": "json", "value": [], "schema": {"type": "array", "maxItems": 50}}
TRAIN = [Sample(f"t{number}", f"question {number}", expected=f"answer {number}") for number in range(30)]
WORTH = {sample.input: Random(f"worth of {sample.id}").gauss(0.02, 0.06) for sample in TRAIN}


def helpfulness(configuration: Mapping[str, Any]) -> float:
    """Some examples help and some confuse, the last one counts double, and every one costs attention."""
    shown = [WORTH[example["input"]] for example in configuration["examples"]]
    return 0.4 + sum(shown) + (shown[-1] if shown else 0.0) - 0.01 * len(shown)


def _target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> float:
    return helpfulness(configuration)


def _run(
    seed: int = 0, trials: int = 60, *, train: list[Sample] = TRAIN, value: list[Any] | None = None, **options: Any
) -> Simulated:
    request = {
        "configuration": {"examples": {**LIST, "value": value or []}, "prompt": "Answer."},
        "optimizer": {"name": "few_shot", **options},
        "budget": {"trials": trials},
        "stop": {"max_rounds": 1000},
        "seed": seed,
    }
    return simulate(request, World(target=_target, samples=["never shown"], train=train))


def test_lists_are_chosen_better_than_by_chance() -> None:
    def by_chance(seed: int) -> float:
        random = Random(seed)
        lists = [random.sample(TRAIN, random.randint(1, 8)) for _ in range(60)]
        return max(helpfulness({"examples": [{"input": sample.input} for sample in shown]}) for shown in lists)

    found = [_run(seed).best_score or 0.0 for seed in range(8)]
    chance = [by_chance(seed) for seed in range(8)]
    assert median(found) > median(chance) + 0.08


def test_every_example_is_a_training_sample_and_none_is_shown_twice_in_a_list() -> None:
    run = _run(trials=40)
    known = {canonical_json({"input": sample.input, "output": sample.expected}) for sample in TRAIN}
    for trial in run.trials[1:]:
        shown: Any = trial.configuration["examples"]
        assert {canonical_json(example) for example in shown} <= known
        assert len({canonical_json(example) for example in shown}) == len(shown)
        assert 1 <= len(shown) <= 8
    assert len({trial.config_hash for trial in run.trials}) == len(run.trials) == 40


def test_the_same_seed_chooses_the_same_lists() -> None:
    first, second, other = _run(3, 24), _run(3, 24), _run(4, 24)
    assert [trial.config_hash for trial in first.trials] == [trial.config_hash for trial in second.trials]
    assert [trial.config_hash for trial in first.trials] != [trial.config_hash for trial in other.trials]


def test_what_the_baseline_shows_can_be_shown_again() -> None:
    own = {"input": "question 0", "output": "an answer of its own"}
    run = _run(trials=40, value=[own])
    assert any(own in trial.configuration["examples"] for trial in run.trials[1:])  # type: ignore[operator]


def test_a_small_pool_is_tried_to_its_end() -> None:
    run = _run(train=TRAIN[:3], max_examples=2)
    assert run.stop_reason == "convergence"
    assert run.message == "No list of examples is left to try after 10 configurations"
    assert len(run.trials) == 1 + 3 + 3 * 2


def test_samples_that_cannot_be_shown_are_passed_over() -> None:
    unfit = [
        Sample("no answer", "?"),
        Sample("placeholder", "what is {{input.secret}}?", expected="no idea"),
        Sample("long", "x" * LONGEST_EXAMPLE, expected="y"),
        Sample("again", TRAIN[0].input, expected=TRAIN[0].expected),
    ]
    assert pool_of([], [TRAIN[0], *unfit, TRAIN[1], TRAIN[2]], 2) == [
        {"input": "question 0", "output": "answer 0"},
        {"input": "question 1", "output": "answer 1"},
    ]


def test_too_few_samples_to_show_are_told() -> None:
    run = _run(train=[Sample("no answer", "?")])
    assert "only 0 training samples can be shown" in run.message


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"configuration": {"prompt": "Answer."}}, "configuration: has no list of examples"),
        (
            {"configuration": {"a": LIST, "b": LIST}},
            "optimizer.factor: is missing, and there are several",
        ),
        ({"optimizer": {"name": "few_shot", "factor": "prompt"}}, "optimizer.factor: 'prompt' is no list of examples"),
        ({"dataset": {"items": [{"input": 1}], "splits": "none"}}, "dataset.splits: few_shot shows train samples"),
    ],
)
def test_a_spec_that_cannot_work_is_told_with_the_fix(changes: dict[str, Any], problem: str) -> None:
    request = {"configuration": {"examples": LIST, "prompt": "Answer."}, "optimizer": "few_shot", **changes}
    with pytest.raises(ValueError, match=problem.replace("[", "\\[")):
        simulate(request, World(target=_target, samples=["one"], train=TRAIN))


def test_large_examples_fit_into_what_one_round_may_hand_back() -> None:
    train = [Sample(f"t{number}", f"{number} " + "words " * 600, expected="yes") for number in range(40)]
    request = {
        "configuration": {"examples": LIST},
        "optimizer": {"name": "few_shot", "min_examples": 10, "max_examples": 12, "candidates_per_round": 8},
        "stop": {"max_rounds": 3},
    }
    run = simulate(request, World(target=lambda configuration, *_: 0.5, samples=["one"], train=train))
    assert run.status == "completed"
    assert len(run.trials) > 3
