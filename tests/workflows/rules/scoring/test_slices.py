"""Slices: which samples belong together, and what they scored, by the objective itself."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.model.spec.dataset import Item
from workflows.model.spec.objective import Objective
from workflows.model.spec.scorers.matches import ExactScorer
from workflows.model.spec.targets.python import PythonTarget
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Split
from workflows.rules.scoring import slices
from workflows.rules.scoring.slices import Slice, label, slices_of, stratum


def suite(samples: int, **objective: Any) -> EvaluationSuite:
    return EvaluationSuite(
        run_id="run",
        split=Split.TEST,
        suite_id="s",
        dataset_id="d",
        samples=samples,
        target_fingerprint="t",
        scorer_fingerprint="s",
        target=PythonTarget(kind="python", ref="a:b"),
        scorers=[ExactScorer(kind="exact")],
        objective=Objective(**objective),
        metric="exact",
    )


def answer(position: int, score: float | None, *, weight: float = 1.0, replicate: int = 0, tokens: int = 100) -> MeasuredSample:
    """An answer with a score; without one the candidate failed."""
    return MeasuredSample(
        position=position,
        weight=weight,
        replicate=replicate,
        status="failed" if score is None else "answered",
        scores={} if score is None else {"exact": score},
        passed=score is not None and score >= 0.5,
        tokens=tokens,
        cost=0.0,
        latency_ms=None,
        ttft_ms=None,
    )


def scores(values: dict[str, list[list[Any]]], *trials: list[MeasuredSample], **objective: Any) -> list[tuple[Any, ...]]:
    baseline, best = (*trials, [])[:2]
    found = slices_of(suite(len(next(iter(values.values()))), **objective), values, baseline, best)
    return [(part.name, part.samples, part.baseline, part.best) for part in found.slices]


def test_a_sample_counts_in_every_slice_it_belongs_to() -> None:
    values = {"tags": [["a"], ["a", "b"], ["b"], []], "input.language": [["de"], ["en"], [], ["de"]]}
    before, after = [answer(n, n % 2) for n in range(4)], [answer(n, 1.0) for n in range(4)]
    assert scores(values, before, after) == [
        ("a", 2, 0.5, 1.0),
        ("b", 2, 0.5, 1.0),
        ("input.language=de", 2, 0.5, 1.0),
        ("input.language=en", 1, 1.0, 1.0),
    ]


def test_weights_and_replicates_count_as_they_do_in_the_whole() -> None:
    answers = [answer(0, 1.0, weight=3), answer(1, 0.0, replicate=0), answer(1, 1.0, replicate=1)]
    assert scores({"tags": [["a"], ["a"]]}, answers) == [("a", 2, (3 * 1.0 + 1 * 0.5) / 4, None)]


@pytest.mark.parametrize(
    ("objective", "score"),
    [
        ({}, 0.45),
        ({"kind": "success_rate"}, 0.5),
        ({"kind": "cost_efficiency"}, 5.0),
        ({"kind": "python", "ref": "a:b"}, 0.45),
        ({"direction": "minimize"}, 0.45),
        ({"kind": "weighted", "components": [{"kind": "mean"}, {"kind": "success_rate"}]}, 0.475),
    ],
)
def test_the_score_of_a_slice_is_the_objective_over_its_samples(objective: dict[str, Any], score: float) -> None:
    answers = [answer(0, 0.8), answer(1, 0.1), answer(2, 1.0)]
    [found, _other] = scores({"tags": [["a"], ["a"], ["b"]]}, answers, **objective)
    assert found == ("a", 2, pytest.approx(score), None)


def test_what_the_candidate_failed_counts_as_its_worst_and_what_nobody_answered_not_at_all() -> None:
    assert scores({"tags": [["a"], ["a"], ["a"], ["b"]]}, [answer(0, 1.0), answer(1, None)]) == [
        ("a", 3, 0.5, None),
        ("b", 1, None, None),
    ]
    assert scores({"tags": [["a"]]}, [answer(0, None)], direction="minimize") == [("a", 1, 1.0, None)]


def test_values_of_different_types_are_different_slices() -> None:
    found = scores({"expected": [[1], [1.0], ["1"], [True], [None], [{"a": 1}]]}, [answer(n, 1.0) for n in range(6)])
    assert [(name, count) for name, count, *_ in found] == [
        ("expected=1", 2),
        ("expected=1", 1),
        ("expected=null", 1),
        ("expected=true", 1),
        ('expected={"a":1}', 1),
    ]


def test_of_a_field_with_many_values_the_frequent_ones_are_shown() -> None:
    values = [[f"v{n % 60}"] for n in range(90)]
    found = slices_of(suite(90), {"input.x": values}, [answer(n, 1.0) for n in range(90)], [])
    assert len(found.slices) == slices.MOST_SLICES_OF_A_FIELD and found.left_out == {"input.x": 10}
    assert [part.samples for part in found.slices[:31]] == [2] * 30 + [1]


def test_a_long_value_is_shortened() -> None:
    assert label("input", "x" * 1000) == "input=" + "x" * 59 + "…"
    assert label("tags", "billing") == "billing"


def test_it_says_on_which_samples_it_was_measured() -> None:
    found = slices_of(suite(1), {"tags": [["a"]]}, [answer(0, 1.0)], [answer(0, 0.5)])
    assert found.split is Split.TEST and found.slices == (Slice(name="a", samples=1, baseline=1.0, best=0.5),)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input.a.b", "[1,2]"),
        ("input.a.b.1", "2"),
        ("input.a.b.2", None),
        ("input.a.b.x", None),
        ("input.none", "null"),
        ("input.none.x", None),
        ("expected", '"yes"'),
        ("expected.x", None),
        ("tags", '["t","u"]'),
    ],
)
def test_a_field_leads_into_mappings_and_lists(field: str, value: str | None) -> None:
    item = Item(input={"a": {"b": [1, 2]}, "none": None}, expected="yes", tags=["u", "t", "t"])
    assert stratum(item, field) == value
