"""A first look at the baseline's answers: what is shown of them, and what it says is probably wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from clients.reports.comparisons.score_differences import plan_text
from ratchet.optimizer import Direction
from tests.support.suite_building import suite
from workflows.model.run.first_look import SeenAnswer
from workflows.model.spec.extraction import Extract
from workflows.model.spec.judgement import JudgementSpec
from workflows.model.spec.objective import Objective
from workflows.model.spec.scorers.matches import ExactScorer
from workflows.model.spec.scorers.rubric import RubricScorer
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import Planning
from workflows.rules.scoring.first_look import first_look, out_of_reach
from workflows.rules.scoring.objective_score import TrialStatistics
from workflows.rules.statistics.detectable_effect import plan_at_baseline

EXACT = suite("echo")
EXTRACTING = suite("echo", scorers=[ExactScorer(kind="exact", extract=Extract(regex=r"Answer: (\w+)"))])
JUDGED = suite("echo", scorers=[RubricScorer(kind="rubric", model="judge", rubric="Is it polite?")])
RATE = suite("echo", objective=Objective(kind="success_rate"))


def answer(number: int, score: float, reason: str | None = None, **more: Any) -> SeenAnswer:
    passed = score >= 0.5
    given: dict[str, Any] = {
        "sample": f"s{number}",
        "input": {"word": f"w{number}"},
        "expected": f"w{number}",
        "output": f"o{number}",
        "answered": True,
        "passed": passed,
        "scores": {"exact": score},
        "details": {"exact": {"passed": passed, "reason": reason}},
    }
    return SeenAnswer(**given | more)


def answers(*scores: float, **more: Any) -> list[SeenAnswer]:
    return [answer(number, score, f"is o{number} instead of w{number}", **more) for number, score in enumerate(scores)]


def warned(seen: Sequence[SeenAnswer], of: EvaluationSuite = EXACT, **facts: Any) -> tuple[str, ...]:
    passed = sum(1 for one in seen if one.passed)
    known = {"outcomes": len(seen), "passed": passed, "failed": len(seen) - passed}
    return first_look(seen, of, TrialStatistics(**known | facts), []).warnings


MIXED = answers(1, 0, 1, 0, 1, 0, 1, 1)


def test_three_answers_are_shown_and_where_there_is_one_of_each_kind_one_of_each() -> None:
    seen = [*answers(1, 1, 1, 1), answer(4, 0, "is o4"), answer(5, 0, answered=False, error="raised KeyError", scores={})]
    look = first_look(seen, EXACT, TrialStatistics(outcomes=6, passed=4), [])
    assert [(one.sample, one.passed, one.why) for one in look.shown] == [
        ("s0", True, "is o0 instead of w0"),
        ("s4", False, "is o4"),
        ("s5", False, "raised KeyError"),
    ]
    assert (look.shown[0].input, look.shown[0].expected, look.shown[0].answer) == ("w0", "w0", "o0")
    assert [one.sample for one in first_look(seen[:4], EXACT, TrialStatistics(), []).shown] == ["s0", "s1", "s2"]


def test_what_is_shown_and_said_is_bounded() -> None:
    huge = [answer(n, 0, "same " * 10_000, output="x" * 100_000, input="y" * 100_000, expected="z" * 9_000) for n in range(200)]
    look = first_look(huge, EXACT, TrialStatistics(outcomes=200, passed=0), [])
    assert look.warnings
    assert len(look.model_dump_json()) < 8_000


def with_reason(reason: str | None) -> Callable[[SeenAnswer], SeenAnswer]:
    return lambda one: replace(one, details={"exact": {"passed": False, "reason": reason}}, passed=False)


WRONG = [
    (answers(*[0] * 8), EXACT, {}, "None of the 8 answers passes: look whether exact fits"),
    (answers(*[1] * 8), EXACT, {}, "All 8 answers pass already"),
    (answers(*[0.7, 0.9] * 4), RATE, {}, "All 8 answers pass already"),
    (
        [with_reason("is not valid JSON")(one) for one in answers(*[0.1, 0.2] * 4)],
        EXACT,
        {},
        "exact says the same of 8 of 8 answers: “is not valid JSON”.",
    ),
    (
        [with_reason("the answer has nothing that matches 'Answer'")(one) for one in answers(*[0.1, 0.2] * 4)],
        EXTRACTING,
        {},
        "exact finds nothing to score in 8 of 8 answers: the answer has nothing that matches 'Answer'; mend its extract",
    ),
    ([*MIXED, answer(9, 0, trace={"finish_reason": "length"})], EXACT, {}, "1 of 9 answers are cut off"),
    (
        [*MIXED, answer(9, 0, trace={"steps": [{"finish_reason": "stop"}, {"finish_reason": "length"}]})],
        EXACT,
        {},
        "1 of 9 answers are cut off",
    ),
    (
        answers(0, 0, 1, 0, 0, 0, output="positive"),
        EXACT,
        {},
        "All 6 answers are the same, “positive”: look whether the sample",
    ),
    (MIXED, EXACT, {"errors": {"no verdict": 3}}, "A judge gave no verdict on 3 answers"),
    (
        [replace(one, scores={"rubric": 0.75}, details={}) for one in MIXED],
        JUDGED,
        {},
        "rubric gives all 8 answers the same grade, 0.75",
    ),
]


@pytest.mark.parametrize(("seen", "of", "facts", "told"), WRONG, ids=[told[:24] for *_, told in WRONG])
def test_what_is_probably_wrong_is_one_sentence(
    seen: list[SeenAnswer], of: EvaluationSuite, facts: dict[str, Any], told: str
) -> None:
    [warning] = warned(seen, of, **facts)
    assert warning.startswith(told)


FINE = [
    (MIXED, EXACT),
    (answers(*[0.7, 0.9] * 4), EXACT),  # all pass, and there is something to gain
    (answers(*[0.1, 0.2] * 4), EXACT),  # none passes, and some are better
    (answers(*[280.0, 310.0] * 4), EXACT),
    (answers(0, 0, 1, 1, output="yes")[:4], EXACT),  # few
    (answers(0, 1, 1, 1, 0, 1, output="yes", expected="yes"), EXACT),  # the same is expected of all
]


@pytest.mark.parametrize(("seen", "of"), FINE)
def test_what_is_fine_is_not_warned_of(seen: list[SeenAnswer], of: EvaluationSuite) -> None:
    assert warned(seen, of) == ()


class TestPower:
    def looked(
        self, means: list[float], singles: list[list[float]] | None = None, **judgement: Any
    ) -> tuple[str | None, str | None]:
        """What is told of the plan, and why nothing can be found."""
        planning = Planning(available=len(means), replicates=len(singles[0]) if singles else 1)
        told, best = plan_at_baseline(means, singles or [()] * len(means), planning, JudgementSpec(**judgement))
        assert best is not None
        score = sum(means) / len(means)
        return told.words if told else None, out_of_reach(best, score, means, EXACT)

    def test_a_baseline_that_leaves_less_than_can_be_found_is_told_so(self) -> None:
        told, hopeless = self.looked([1.0] * 18 + [0.0, 0.0])
        assert told is None
        assert hopeless is not None
        assert hopeless.startswith("No gain of a plausible size can be told from chance with 20 samples: it would")
        assert "only 0.1 is left to gain" in hopeless
        assert self.looked([1.0] * 10 + [0.0] * 10)[1] is None

    def test_who_wants_to_lose_nothing_is_told_what_could_stay_unseen_and_not_that_all_pass(self) -> None:
        shorter = EXACT.model_copy(update={"judgement": JudgementSpec(rule="non_inferiority", margin=0.05)})
        assert warned(answers(*[1] * 10), shorter) == ()
        _, best = plan_at_baseline([1.0] * 10, [()] * 10, Planning(available=10, replicates=1), shorter.judgement)
        assert best is not None
        told = out_of_reach(best, 1.0, [1.0] * 10, shorter)
        assert told is not None
        assert told.startswith("With 10 samples hardly anything can be shown to be as good as the baseline: losses of up to")
        assert out_of_reach(best.model_copy(update={"margin": 0.04}), 1.0, [1.0] * 10, shorter) is None

    def test_scores_around_300_are_planned_in_their_own_units(self) -> None:
        told, hopeless = self.looked([280.0, 320.0, 300.0, 310.0, 290.0] * 4)
        assert told is not None
        assert told.startswith("if answers varied as much as samples do: with 20 samples")
        assert "a true gain of 11.4" in told
        assert hopeless is None

    def test_noise_that_drowns_half_of_the_score_is_told_and_is_that_of_the_answers_where_there_are_several(self) -> None:
        told, hopeless = self.looked([300.0] * 5, [[0.0, 600.0, 300.0]] * 5)
        assert told is not None
        assert told.startswith("5 of 5 samples vary when they are answered again: ")
        assert hopeless is not None
        assert "that is more than half of the baseline's 300" in hopeless
        assert self.looked([300.0] * 5, [[299.0, 301.0, 300.0]] * 5)[1] is None

    def test_what_held_back_samples_can_confirm_is_what_reports_tell(self) -> None:
        means = [280.0, 320.0, 300.0, 310.0, 290.0] * 4
        for held_back, told in (
            (0, "gains from +11.4"),
            (5, "gains from +22.8"),
            (3, "no gain, however large, is found in 80%"),
        ):
            planning = Planning(available=20, replicates=1, held_back=held_back)
            plan, _ = plan_at_baseline(means, [()] * 20, planning, JudgementSpec())
            assert plan is not None
            assert plan_text(plan, JudgementSpec()).startswith(told)
            assert ("; confirmed on the 5 held-back samples from 22.8" in plan.words) is (held_back == 5)

    def test_what_was_measured_before_is_not_replaced(self) -> None:
        known = plan_at_baseline([0.5, 1.0], [(), ()], Planning(available=2, replicates=1), JudgementSpec())[1]
        again = Planning(available=2, replicates=1, known=known)
        assert plan_at_baseline([0.5, 1.0], [(), ()], again, JudgementSpec()) == (None, known)

    def test_a_score_that_is_minimized_can_lose_what_it_is(self) -> None:
        planning = Planning(available=20, replicates=1)
        _, best = plan_at_baseline([0.0] * 18 + [1.0] * 2, [()] * 20, planning, JudgementSpec())
        down = EXACT.model_copy(update={"objective": Objective(direction=Direction.MINIMIZE)})
        assert best is not None
        assert out_of_reach(best, 0.1, [0.0, 1.0], down) is not None
        assert out_of_reach(best, 0.1, [0.0, 1.0], EXACT) is None
