"""Measures over the labels of a whole trial, compared with an oracle written from the definitions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.spec_building import request, sample
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Split
from workflows.rules.scoring.classification import classify
from workflows.rules.scoring.objective_score import ScoringFailed, describe_objective, objective_score
from workflows.rules.scoring.tally import statistics

LABELS = ["a", "b", "c"]
Pairs = list[tuple[str | None, str]]
PAIRS = st.lists(
    st.tuples(st.none() | st.sampled_from([*LABELS, "no label"]), st.sampled_from(LABELS)), min_size=1, max_size=30
)


def oracle(pairs: Pairs, kind: str, average: str) -> Fraction:
    """By counting, as the definitions say."""
    counts = {}
    for label in {expected for _, expected in pairs}:
        right = sum(1 for given, expected in pairs if given == expected == label)
        given_at_all = sum(1 for given, _ in pairs if given == label)
        wanted = sum(1 for _, expected in pairs if expected == label)
        counts[label] = (right, given_at_all, wanted)

    def measured(right: int, given_at_all: int, wanted: int) -> Fraction:
        precision = Fraction(right, given_at_all) if given_at_all else Fraction(0)
        recall = Fraction(right, wanted) if wanted else Fraction(0)
        both = precision + recall
        return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / both if both else Fraction(0)}[kind]

    if average == "micro":
        return measured(*(sum(column) for column in zip(*counts.values(), strict=True)))
    shares = {label: Fraction(1) if average == "macro" else Fraction(wanted) for label, (_, _, wanted) in counts.items()}
    zero = Fraction(0)
    return sum((shares[label] * measured(*counts[label]) for label in counts), zero) / sum(shares.values(), zero)


@given(PAIRS, st.sampled_from(["precision", "recall", "f1"]), st.sampled_from(["macro", "micro", "weighted"]))
def test_every_average_agrees_with_the_definitions(pairs: Pairs, kind: str, average: str) -> None:
    made = classify((1.0, given, expected) for given, expected in pairs)
    assert made.measure(kind, average, None) == pytest.approx(float(oracle(pairs, kind, average)))
    assert 0.0 <= made.measure(kind, average, None) <= 1.0
    assert made.accuracy == pytest.approx(sum(1 for one, other in pairs if one == other) / len(pairs))


@given(PAIRS, st.randoms())
def test_the_order_of_answers_changes_nothing(pairs: Pairs, random: Any) -> None:
    answers = [(1 / 3, given, expected) for given, expected in pairs]
    shuffled = list(answers)
    random.shuffle(shuffled)
    assert classify(answers) == classify(shuffled)


def test_the_figures_are_those_of_scikit_learn() -> None:
    pairs = zip(["a", "b", "b", "b", "c", "c"], ["a", "a", "b", "b", "b", "c"], strict=True)
    made = classify((1.0, given, expected) for given, expected in pairs)
    figures = {
        "macro": (0.7222222222222222, 0.7222222222222222, 0.6666666666666666),
        "micro": (0.6666666666666666,) * 3,
        "weighted": (0.75, 0.6666666666666666, 0.6666666666666666),
    }
    for average, (precision, recall, f1) in figures.items():
        assert made.measure("precision", average, None) == pytest.approx(precision)
        assert made.measure("recall", average, None) == pytest.approx(recall)
        assert made.measure("f1", average, None) == pytest.approx(f1)
    assert made.measure("f1", "macro", "c") == pytest.approx(2 / 3)
    assert made.measure("recall", "macro", "never seen") == 0.0


def test_a_label_that_nobody_expects_is_a_class_of_its_own_only_when_it_is_known() -> None:
    answers = [(1.0, "a", "a"), (1.0, "z", "a")]
    assert classify(answers).measure("f1", "macro", None) == pytest.approx(2 / 3)
    assert classify(answers, ["a", "z", "never given"]).measure("f1", "macro", None) == pytest.approx(1 / 3)


def test_case_is_ignored_on_all_sides_or_on_none() -> None:
    made = classify([(1.0, "a", "a"), (1.0, "b", "a")], ["A", " B "], ignore_case=True)
    assert set(made.by_label) == {"a", "b"}
    assert made.measure("recall", "macro", "A") == 0.5
    assert classify([(1.0, "A", "A")]).measure("recall", "macro", "a") == 0.0


SCORERS = [{"kind": "classification", "name": "label"}]


def _suite(objective: Any) -> EvaluationSuite:
    made = request(objective=objective, scorers=SCORERS)
    return EvaluationSuite(
        run_id="r",
        split=Split.ALL,
        suite_id="s",
        dataset_id="d",
        samples=9,
        target_fingerprint="t",
        scorer_fingerprint="s",
        target=made.target,
        scorers=made.scorers,
        objective=made.objective,
        metric=made.metric,
    )


def _answer(position: int, label: str | None, expected: str, **more: Any) -> MeasuredSample:
    score = None if label is None else float(label == expected)
    scores = None if score is None else {"label": score}
    return replace(sample(position, score, scores=scores, **more), labels={"label": (label, expected)})


def _score(measured: list[MeasuredSample], objective: Any) -> float:
    suite = _suite(objective)
    return objective_score(suite.objective, suite.metric, statistics(measured, suite, len(measured)))


MEASURED = [_answer(0, "a", "a"), _answer(1, "b", "a"), _answer(2, "b", "b"), _answer(3, None, "b")]


@pytest.mark.parametrize(
    ("objective", "score"),
    [
        ({"kind": "accuracy"}, 0.5),
        ({"kind": "mean"}, 0.5),
        ({"kind": "f1"}, (2 / 3 + 1 / 2) / 2),
        ({"kind": "f1", "positive": "A"}, 2 / 3),
        ({"kind": "precision", "positive": "b"}, 0.5),
        ({"kind": "recall", "positive": "b"}, 0.5),
        ({"kind": "precision", "average": "micro"}, 2 / 3),
        ({"kind": "weighted", "components": [{"kind": "accuracy"}, {"kind": "recall", "positive": "a", "weight": 3}]}, 0.5),
    ],
)
def test_it_is_an_objective_and_a_failed_answer_misses_its_label(objective: Any, score: float) -> None:
    assert _score(MEASURED, objective) == pytest.approx(score)


def test_replicates_share_their_samples_weight() -> None:
    measured = [
        _answer(0, "a", "a"),
        _answer(0, "b", "a", replicate=1),
        _answer(0, "b", "a", replicate=2),
        _answer(1, "b", "b", weight=3.0),
    ]
    assert _score(measured, {"kind": "accuracy"}) == pytest.approx((1 / 3 + 3) / 4)
    assert _score(measured, {"kind": "precision", "positive": "b"}) == pytest.approx(3 / (3 + 2 / 3))


def test_without_labels_there_is_nothing_to_compute_from() -> None:
    suite = _suite({"kind": "f1"}).model_copy(update={"scorers": request().scorers, "metric": "exact"})
    with pytest.raises(ScoringFailed, match="f1 needs the labels of a scorer of kind classification, and 'exact' is none"):
        objective_score(suite.objective, "exact", statistics([sample(0)], suite, 1))


def test_a_users_own_objective_is_given_the_counts() -> None:
    counts = statistics(MEASURED, _suite({"kind": "accuracy"}), 4).model_dump(mode="json")["classification"]["label"]
    assert counts["by_label"]["b"] == {"hits": 1.0, "false_alarms": 1.0, "misses": 1.0}


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ({"kind": "accuracy"}, "Accuracy of label (higher is better)"),
        ({"kind": "f1"}, "Macro F1 of label (higher is better)"),
        ({"kind": "recall", "positive": "bug"}, "Recall for bug of label (higher is better)"),
        (
            {"kind": "weighted", "components": [{"kind": "precision", "average": "micro"}]},
            "100% Micro precision of label (higher is better)",
        ),
    ],
)
def test_it_is_told_in_words(objective: Any, words: str) -> None:
    made = request(objective=objective, scorers=SCORERS)
    assert describe_objective(made.objective, made.metric) == words


def test_what_scoring_took_does_not_make_the_target_less_efficient() -> None:
    measured = [replace(sample(0, 1.0, tokens=300), scoring_tokens=200), sample(1, 1.0, tokens=100)]
    suite = _suite({"kind": "cost_efficiency"}).model_copy(update={"scorers": request().scorers, "metric": "exact"})
    facts = statistics(measured, suite, 2)
    assert (facts.total_tokens, facts.scoring_tokens) == (400, 200)
    assert objective_score(suite.objective, "exact", facts) == 2 * 1000 / 200
