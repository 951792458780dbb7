"""Gates: what is asked of a run, what it had, and what cannot be asked."""

from __future__ import annotations

import pytest

from clients.reports.gates import FIGURES, BadGate, check_gate, figures_of, meets
from tests.support.report_examples import confirmed, facts, request
from workflows.model.spec.judgement import Evidence, Judged, Verdict


@pytest.mark.parametrize(
    ("gate", "met"),
    [
        ("verdict in (better, not_worse)", True),
        ("verdict == 'better'", True),
        ("verdict == worse", False),
        ("verdict != worse and low > 0", True),
        ("effect >= 0.05 and p_value < 0.05", True),
        ("score > 0.93", False),
        ("score - baseline_score > 0.1", True),
        ("improvement * 100 >= 3", True),
        ("0 < search_score - search_baseline < 0.2", True),
        ("not (cost > 1)", True),
        ("status == completed and stop_reason == no_improvement", True),
        ("-effect < 0", True),
        ("improved", True),
    ],
)
def test_a_gate_is_met_by_what_the_run_reached(gate: str, met: bool) -> None:
    run = facts([0.85, 0.88], values={1: {"systemPrompt": "Better."}}, confirmation=confirmed())
    assert meets(gate, run).met is met


def test_what_does_not_hold_has_improved_nothing() -> None:
    run = facts([0.85, 0.88], confirmation=confirmed(verdict=Verdict.INCONCLUSIVE))
    known = figures_of(run)
    assert (known["improved"], known["improvement"], known["score"], known["baseline_score"]) == (False, 0, 0.81, 0.81)
    assert (known["effect"], known["search_score"]) == (pytest.approx(0.12), 0.88)
    assert meets("improved", run).words == "gate not met: improved (improved = False)"


def test_the_answer_names_the_figures_that_decided() -> None:
    result = meets("verdict in (better, not_worse)", facts([0.8], confirmation=confirmed(verdict=Verdict.WORSE)))
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
    assert meets("verdict == better or search_score > 0.85", facts([0.8, 0.9])).met


def test_a_minimizing_run_improves_by_getting_smaller() -> None:
    spec = request(objective={"metric": "exact", "kind": "mean", "direction": "minimize"})
    evidence = Evidence(reference="r0", effect=0.3, low=0.1, high=0.5, n=40)
    judged = Judged(verdict=Verdict.BETTER, accepted=True, adjusted_p=0.01, evidence=evidence)
    known = figures_of(facts([0.8, 0.5], spec=spec, confirmation=confirmed(0.8, 0.5, judged=judged)))
    assert (known["improvement"], known["effect"], known["low"], known["high"]) == (pytest.approx(0.3), 0.3, 0.1, 0.5)


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
    assert not meets("search_score / cost < 3", free).met
