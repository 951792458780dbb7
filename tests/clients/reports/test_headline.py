"""What a run comes to, told alike wherever it is read: the confirmed figure, and the search's own by that name only."""

from __future__ import annotations

from typing import Any

import pytest

from clients.reports.facts import RunFacts
from clients.reports.headline import headline_of
from tests.support.report_examples import confirmed, facts, request
from workflows.model.run.run_result import Confirmation
from workflows.model.spec.judgement import ConstraintCheck, Evidence, Verdict

MINIMIZING = request(objective={"kind": "mean", "direction": "minimize"})


def run(*scores: float | None, **given: Any) -> RunFacts:
    return facts(scores or [0.8, 0.95], **given)


@pytest.mark.parametrize(
    ("given", "words", "brief"),
    [
        (
            run(confirmation=confirmed()),
            "Better: 0.81 → 0.93, +0.12 (95% CI +0.03…+0.21, p = 0.01), on 40 held-back samples",
            "+0.12, better",
        ),
        (
            run(confirmation=confirmed(how="fresh_answers", p=0.00001)),
            "Better: 0.81 → 0.93, +0.12 (95% CI +0.03…+0.21, p < 0.0001), with fresh answers to the 40 samples of the search",
            "+0.12, better",
        ),
        (
            run(confirmation=confirmed(0.81, 0.88, p=0.04, how="cross_fitting")),
            "Better: 0.81 → 0.88, +0.07 (95% CI -0.02…+0.16, p = 0.04 one-sided), by cross-fitting over the 40 samples of the "
            "search",
            "+0.07, better",
        ),
        (
            run(confirmation=confirmed(0.81, 0.80, Verdict.NOT_WORSE, holds=True)),
            "Not worse (margin 0.05): 0.81 → 0.80, -0.01 (95% CI -0.10…+0.08, p = 0.01), on 40 held-back samples",
            "-0.01, not worse",
        ),
        (run(confirmation=confirmed(verdict=Verdict.INCONCLUSIVE)), "No improvement was found that holds", "nothing holds"),
        (run(0.8, 0.7), "No improvement was found: 0.80, the baseline, stays", "no improvement"),
        (run(0.8), "0.80, the baseline; nothing else was measured", "0.80"),
        (run(None, status="failed"), "Nothing was measured", ""),
        (
            run(reason=None, status="running"),
            "In the search so far: 0.80 → 0.95, {best}; nothing is confirmed yet",
            "0.80 → 0.95 in search",
        ),
        (run(), "Not confirmed, in the search 0.80 → 0.95, {best}", "0.80 → 0.95 in search"),
    ],
    ids=lambda given: None if isinstance(given, RunFacts) else given[:18],
)
def test_what_a_run_comes_to_in_one_sentence(given: RunFacts, words: str, brief: str) -> None:
    if len(given.iterations) == 1:
        given = given.model_copy(update={"counts": given.counts.model_copy(update={"proposed": 0})})
    found = headline_of(given)
    assert (found.words, found.brief) == (words.format(best=given.iterations[-1].candidate_id), brief)
    assert found.holds is (found.outcome in ("better", "not_worse"))


def test_what_does_not_hold_stands_beside_with_its_score_in_the_search_and_the_baseline_is_the_result() -> None:
    given = run(
        confirmation=confirmed(verdict=Verdict.INCONCLUSIVE, p=0.2, promised=0.15, optimism=0.03, readers=2, searched=7)
    )
    found = headline_of(given)
    winner = given.iterations[1].candidate_id
    assert (found.score, found.baseline_score, found.verdict, found.p_value) == (0.81, 0.81, Verdict.INCONCLUSIVE, 0.2)
    assert found.beside == [
        ("Unproven", winner),
        ("Confirmation", "inconclusive: 0.81 → 0.93, +0.12 (95% CI +0.03…+0.21, p = 0.2), on 40 held-back samples"),
        ("In the search", f"0.80 → 0.95, {winner}; a gain 0.03 larger than the confirmed one"),
        (
            "Caution",
            "2 other runs were confirmed on these samples before; other runs searched on 7 of these samples. "
            "The more a split is looked at, the less it proves: hold back others",
        ),
    ]


def test_a_confirmed_gain_that_is_the_one_of_the_search_is_called_the_same() -> None:
    for optimism in (0.0, 1e-17, -1e-17):
        beside = dict(headline_of(run(confirmation=confirmed(optimism=optimism))).beside)
        assert beside["In the search"].endswith("; the same gain as the confirmed one")
    nearly = dict(headline_of(run(confirmation=confirmed(optimism=-0.0021))).beside)
    assert nearly["In the search"].endswith("; a gain 0.0021 smaller than the confirmed one")


def test_a_gain_of_a_run_that_minimizes_is_a_negative_difference() -> None:
    evidence = Evidence(reference="r0", effect=0.12, low=0.03, high=0.21, n=40, merged_from=50)
    judged = confirmed().judged
    assert judged is not None
    given = confirmed(0.93, 0.81, judged=judged.model_copy(update={"evidence": evidence}))
    found = headline_of(run(0.9, 0.8, spec=MINIMIZING, confirmation=given))
    assert found.words == (
        "Better: 0.93 → 0.81, -0.12 (95% CI -0.21…-0.03, p = 0.01), on 50 held-back samples, which count as 40"
    )
    assert (found.difference, found.low, found.high) == (-0.12, -0.21, -0.03)


@pytest.mark.parametrize(
    ("confirmation", "why"),
    [
        (Confirmation(refused="what is left of the budget does not cover it"), "what is left of the budget does not cover it"),
        (Confirmation(baseline_score=0.0), "not measured in full (baseline 0.00)"),
        (Confirmation(), "not measured in full (no trial completed)"),
    ],
)
def test_what_was_not_confirmed_says_why(confirmation: Confirmation, why: str) -> None:
    found = headline_of(run(confirmation=confirmation))
    assert found.why == why
    assert not found.holds


def test_a_winner_that_fails_a_must_pass_sample_or_a_constraint_says_so_although_it_is_better() -> None:
    judged = confirmed().judged
    assert judged is not None
    slow = ConstraintCheck(constraint="p95 latency_ms <= 800", value=900.0, limit=800.0, holds=False)
    evidence = judged.evidence.model_copy(update={"must_pass_broken": ("vip-1",), "constraints": (slow,)})
    found = headline_of(run(confirmation=confirmed(holds=False, judged=judged.model_copy(update={"evidence": evidence}))))
    assert found.words == "No improvement was found that holds"
    assert found.why.endswith("held-back samples; must-pass samples failed: vip-1; p95 latency_ms <= 800 is not met")


def test_too_few_samples_have_neither_interval_nor_p_value() -> None:
    judged = confirmed(verdict=Verdict.INCONCLUSIVE).judged
    assert judged is not None
    evidence = judged.evidence.model_copy(update={"n": 1, "refused": "too few samples"})
    few = confirmed(holds=False, judged=judged.model_copy(update={"evidence": evidence}))
    found = headline_of(run(confirmation=few))
    assert found.why == "inconclusive: 0.81 → 0.93, +0.12 (no interval from 1 sample), on 1 held-back sample"
    assert (found.p_value, found.low) == (None, None)
