"""Gates: what is asked of a run, what it had, and what cannot be asked."""

from __future__ import annotations

import pytest

from clients.reports.gates import FIGURES, BadGate, check_gate, figures_of, meets
from tests.support.report_examples import facts
from workflows.model.run.contract import Confirmation
from workflows.model.spec.judgement import Evidence, Judged, Verdict


def confirmed(verdict: Verdict = Verdict.BETTER) -> Confirmation:
    evidence = Evidence(reference="r0", n=100, effect=0.1, low=0.02, high=0.18)
    judged = Judged(verdict=verdict, accepted=True, adjusted_p=0.01, evidence=evidence)
    return Confirmation(baseline_score=0.8, winner_score=0.9, judged=judged)


@pytest.mark.parametrize(
    ("gate", "met"),
    [
        ("verdict in (better, not_worse)", True),
        ("verdict == 'better'", True),
        ("verdict == worse", False),
        ("verdict != worse and low > 0", True),
        ("effect >= 0.05 and p_value < 0.05", True),
        ("score > 0.9", False),
        ("score - baseline_score > 0.02", True),
        ("improvement * 100 >= 3", True),
        ("0 < confirmed_score - confirmed_baseline < 0.2", True),
        ("not (cost > 1)", True),
        ("status == completed and stop_reason == no_improvement", True),
        ("-effect < 0", True),
        ("changed", True),
    ],
)
def test_a_gate_is_met_by_what_the_run_reached(gate: str, met: bool) -> None:
    run = facts([0.85, 0.88], values={1: {"systemPrompt": "Better."}}, confirmation=confirmed())
    assert meets(gate, run).met is met


def test_the_answer_names_the_figures_that_decided() -> None:
    result = meets("verdict in (better, not_worse)", facts([0.8], confirmation=confirmed(Verdict.WORSE)))
    assert result.words == "gate not met: verdict in (better, not_worse) (verdict = worse)"


@pytest.mark.parametrize(
    "gate",
    [
        "verdict == better",
        "not (verdict == worse)",
        "not (verdict == worse or cost > 5)",
        "not (low < 0 and cost < 5)",
        "low > -1",
    ],
)
def test_what_is_not_known_meets_no_gate(gate: str) -> None:
    result = meets(gate, facts([0.8, 0.9]))
    assert not result.met
    assert "is not known" in result.words


def test_another_part_may_decide_what_the_unknown_one_cannot() -> None:
    assert meets("verdict == better or score > 0.85", facts([0.8, 0.9])).met


def test_a_minimizing_run_improves_by_getting_smaller() -> None:
    from tests.support.report_examples import request

    spec = request(objective={"metric": "exact", "kind": "mean", "direction": "minimize"})
    assert figures_of(facts([0.8, 0.5], spec=spec))["improvement"] == pytest.approx(0.3)


def test_every_figure_is_told() -> None:
    assert set(figures_of(facts([0.8]))) == set(FIGURES)


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        ("verdcit == better", "did you mean verdict"),
        ("verdict = better", "is no condition"),
        ("", "is no condition"),
        ("__import__('os').system('true')", "cannot have"),
        ("score.real > 0", "cannot have"),
        ("[x for x in (1, 2)]", "cannot have"),
        ("score ** 99999999 > 1", "cannot have"),
        ("verdict > 3", "cannot be computed"),
        ("(" * 300 + "score" + ")" * 300, "is no condition"),
        ("score > 1 and " * 200 + "score > 1", "at most"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_spent(gate: str, told: str) -> None:
    with pytest.raises(BadGate, match=told):
        check_gate(gate)


def test_dividing_by_nothing_meets_no_gate() -> None:
    run = facts([0.5])
    free = run.model_copy(update={"spend": run.spend.model_copy(update={"cost": 0.0})})
    assert not meets("score / cost < 3", free).met
