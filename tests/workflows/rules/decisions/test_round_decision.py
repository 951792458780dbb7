"""What a round decides: who becomes the best, by which evidence, and why, in a sentence that a person can read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.spec_building import NOW, measured_state, proposal, result
from workflows.model.run.decisions import Decision, Reference
from workflows.model.spec.judgement import ConstraintCheck, Evidence, JudgementSpec, RaceDecision, Verdict
from workflows.model.trial import TrialResult
from workflows.rules.decisions.verdicts import judge, share_of_round
from workflows.run.references import references_of
from workflows.run.round_records import round_record
from workflows.run.state import RunState


def evidence(run: RunState, gain: float, *, sure: bool = True, against: str | None = None, **changes: Any) -> Evidence:
    """A comparison with the best (or another candidate) that is sure of its gain, or of nothing."""
    assert run.best
    p = 0.001 if sure else 0.4
    given: dict[str, Any] = {
        "reference": against or run.best.candidate_id,
        "method": "exact sign test",
        "n": 40,
        "reference_mean": 0.5,
        "mean": 0.5 + gain,
        "effect": gain,
        "low": gain - 0.05,
        "high": gain + 0.05,
        "p_better": p if gain > 0 else 1 - p,
        "p_worse": p if gain < 0 else 1 - p,
        "p_not_worse": 0.001 if gain > 0 and sure else 0.4,
        "better": 9,
        "worse": 2,
    }
    return Evidence(**{**given, **changes})


def decided(run: RunState, *rounds: tuple[float, Evidence | None], race: RaceDecision | None = None) -> list[Decision]:
    """One round with a candidate for each score and evidence."""
    run_round(run, [(score, [found] if found else [], race) for score, found in rounds])
    return run.decisions


def run_round(run: RunState, planned: list[tuple[float | None, list[Evidence], RaceDecision | None]]) -> list[TrialResult]:
    proposals = [proposal(prompt=f"{'#' * place}{run.round} {{{{input.q}}}}") for place in range(len(planned))]
    candidates, _ = run.admit(proposals)
    results = [
        result(candidate, score, "failed" if score is None else "completed", error="no such model").model_copy(
            update={"evidence": tuple(found), "race": race}
        )
        for candidate, (score, found, race) in zip(candidates, planned, strict=True)
    ]
    run.record_round(candidates, results)
    return results


def judged_state(**judgement: Any) -> RunState:
    return measured_state(0.5, judgement=judgement)


def test_the_baseline_is_the_first_best_and_says_so() -> None:
    run = judged_state()
    assert run.decisions == [
        Decision(candidate_id="r0-00000000", kept=True, explanation="the baseline: score 0.5 on 10 answers")
    ]


def test_a_better_score_is_kept_and_the_evidence_is_told_beside_it() -> None:
    run = judged_state()
    [decision] = decided(run, (0.7, evidence(run, 0.2)))
    assert (decision.kept, decision.verdict, decision.reference) == (True, Verdict.BETTER, "r0-00000000")
    assert decision.explanation.startswith("kept: score 0.7 beats 0.5 of r0-00000000; better than r0-00000000: 0.500 -> 0.700")
    assert "gain +0.200 [+0.150, +0.250] on 40 samples (9 better, 2 worse), p = 0.001" in decision.explanation


def test_a_better_score_is_kept_without_proof_unless_the_spec_asks_for_it() -> None:
    run = judged_state()
    [kept] = decided(run, (0.7, evidence(run, 0.2, sure=False)))
    assert (kept.kept, kept.verdict) == (True, Verdict.INCONCLUSIVE)

    strict = judged_state(accept="better")
    [dropped] = decided(strict, (0.7, evidence(strict, 0.2, sure=False)))
    assert (dropped.kept, strict.best and strict.best.score) == (False, 0.5)
    assert dropped.explanation.startswith("dropped: judgement.accept asks for the verdict better (score 0.7); neither better")


def test_candidates_of_one_round_are_corrected_for_their_number() -> None:
    run = judged_state(accept="better", alpha_covers="round")
    near = evidence(run, 0.1, p_better=0.03, p_not_worse=0.5)
    alone = judged_state(accept="better", alpha_covers="round")
    assert decided(alone, (0.6, near))[0].kept
    decisions = decided(run, (0.6, near), (0.55, evidence(run, 0.05, sure=False)))
    assert [decision.kept for decision in decisions] == [False, False]
    assert (decisions[0].family, decisions[0].adjusted_p) == (2, 0.06)
    assert "corrected for 2 candidates" in decisions[0].explanation


def test_rounds_that_decide_what_a_run_goes_on_from_share_alpha_among_them() -> None:
    run = judged_state(accept="better")
    [first] = decided(run, (0.6, evidence(run, 0.1, p_better=0.02)))
    assert (first.kept, first.adjusted_p) == (True, 0.04)
    assert "corrected for all rounds of the run" in first.explanation
    [second] = decided(run, (0.7, evidence(run, 0.1, p_better=0.02, p_not_worse=0.5)))
    assert not second.kept
    assert second.adjusted_p == pytest.approx(0.12)
    assert sum(share_of_round(JudgementSpec(accept="better"), number) for number in range(1, 10_000)) <= 1


def test_a_best_that_was_chosen_for_its_score_makes_nobody_worse_who_is_only_less_lucky() -> None:
    run = judged_state()
    decided(run, *[(0.6 + place / 100, evidence(run, 0.1)) for place in range(9)])
    [close] = decided(run, (0.5, evidence(run, -0.1, p_worse=0.02)))
    assert close.verdict is Verdict.INCONCLUSIVE
    [far] = decided(run, (0.4, evidence(run, -0.2, p_worse=0.001)))
    assert far.verdict is Verdict.WORSE


def test_further_objectives_are_corrected_for_the_number_of_candidates_as_the_first_one_is() -> None:
    near = Evidence(reference="a", n=40, p_better=0.03)
    one = Evidence(reference="a", n=40, objectives={"cost": near})
    [alone] = judge([one], JudgementSpec())
    assert alone.objectives == {"cost": Verdict.BETTER}
    together = judge([one, Evidence(reference="a", n=40, objectives={"cost": Evidence(reference="a", n=40)})], JudgementSpec())
    assert [judged.objectives["cost"] for judged in together] == [Verdict.INCONCLUSIVE] * 2


def test_of_several_that_may_stand_the_best_score_stands_and_the_others_lose_to_it() -> None:
    run = judged_state()
    decisions = decided(run, (0.6, evidence(run, 0.1)), (0.8, evidence(run, 0.3)), (0.4, evidence(run, -0.1)))
    assert [decision.kept for decision in decisions] == [False, True, False]
    assert run.best is not None
    assert decisions[0].explanation.startswith(f"dropped: score 0.6 does not beat 0.8 of {run.best.candidate_id}")
    assert decisions[2].explanation.startswith("dropped: score 0.4 does not beat 0.5 of r0-00000000; worse than")
    assert [fact.kept for fact in run.history] == [True, False, True, False]
    assert [fact.verdict for fact in run.history] == [None, "better", "better", "worse"]


@pytest.mark.parametrize(
    "broken",
    [
        {"must_pass_broken": ("s7",)},
        {"constraints": (ConstraintCheck(constraint="mean cost <= 0.002", value=0.01, limit=0.002, holds=False),)},
    ],
)
def test_whoever_breaks_what_all_must_keep_is_dropped_whatever_its_score(broken: dict[str, Any]) -> None:
    run = judged_state()
    [decision] = decided(run, (0.9, evidence(run, 0.4, **broken)))
    assert (decision.kept, decision.accepted) == (False, False)
    assert decision.explanation.startswith("dropped: it breaks what every candidate must keep (score 0.9); better than")
    assert decision.explanation.endswith(("must-pass samples failed: s7", "mean cost <= 0.002 is not met: 0.01"))


@pytest.mark.parametrize("reason", ["futility", "regression"])
def test_a_trial_that_was_stopped_as_hopeless_never_becomes_the_best(reason: Any) -> None:
    run = judged_state()
    words = "after 16 of 40 samples at most +0.01 is left"
    race = RaceDecision(go_on=False, reason=reason, words=words, samples=16, planned=40)
    [decision] = decided(run, (0.9, evidence(run, 0.4)), race=race)
    assert not decision.kept
    assert decision.explanation == f"dropped: stopped early, {words}"


def stopped(reason: Any, words: str = "after 16 of 40 samples") -> RaceDecision:
    return RaceDecision(go_on=False, reason=reason, words=words, samples=16, planned=40)


def test_who_won_its_race_must_be_measured_in_full_before_it_becomes_the_best() -> None:
    run = judged_state(accept="better")
    candidates, _ = run.admit([proposal(0.1), proposal(0.2), proposal(0.3)])
    won = [evidence(run, gain) for gain in (0.1, 0.3, 0.2)]
    results = [
        result(candidate, 0.9).model_copy(update={"evidence": (found,), "race": stopped("win")})
        for candidate, found in zip(candidates, won, strict=True)
    ]
    assert run.unfinished_winner(candidates, results, []) == 1  # it gained the most, whatever the scores of its few samples
    results[1] = result(candidates[1], 0.65).model_copy(update={"evidence": (evidence(run, 0.15),)})
    assert run.unfinished_winner(candidates, results, [1]) is None  # it stands, and that of three winners is enough
    run.record_round(candidates, results)
    assert [decision.kept for decision in run.decisions] == [False, True, False]
    assert run.best is not None and run.best.score == 0.65
    told = run.decisions[0].explanation
    assert told == f"dropped: {candidates[1].candidate_id} gained more; stopped early, after 16 of 40 samples"


def test_a_winner_that_disappoints_in_full_leaves_its_place_to_the_next() -> None:
    run = judged_state(accept="better")
    candidates, _ = run.admit([proposal(0.1), proposal(0.2)])
    results = [
        result(candidate, 0.9).model_copy(update={"evidence": (evidence(run, gain),), "race": stopped("win")})
        for candidate, gain in zip(candidates, (0.1, 0.3), strict=True)
    ]
    results[1] = result(candidates[1], 0.52).model_copy(update={"evidence": (evidence(run, 0.02, sure=False),)})
    assert run.unfinished_winner(candidates, results, [1]) == 0
    results[0] = result(candidates[0], 0.45).model_copy(update={"evidence": (evidence(run, -0.05),)})
    assert run.unfinished_winner(candidates, results, [1, 0]) is None
    run.record_round(candidates, results)
    assert run.best is not None and run.best.round == 0


def test_a_winner_of_a_race_need_not_be_measured_in_full_when_another_candidate_is_better_anyway() -> None:
    run = judged_state()
    candidates, _ = run.admit([proposal(0.1), proposal(0.2)])
    results = [
        result(candidates[0], 0.9).model_copy(update={"evidence": (evidence(run, 0.1),), "race": stopped("win")}),
        result(candidates[1], 0.7).model_copy(update={"evidence": (evidence(run, 0.2),)}),
    ]
    assert run.unfinished_winner(candidates, results, []) is None


@pytest.mark.parametrize(
    ("accept", "reason", "verdict", "accepted"),
    [
        ("better", "win", Verdict.BETTER, True),
        ("not_worse", "win", Verdict.NOT_WORSE, True),
        ("score", "win", Verdict.INCONCLUSIVE, False),  # a better score is no proof
        ("better", "futility", Verdict.INCONCLUSIVE, False),
        ("score", "regression", Verdict.WORSE, False),
    ],
)
def test_a_trial_that_ended_early_has_the_verdict_that_its_race_found_certain(
    accept: str, reason: str, verdict: Verdict, accepted: bool
) -> None:
    run = judged_state(accept=accept)
    candidates, _ = run.admit([proposal(0.1), proposal(0.2)])
    raced, full = result(candidates[0], 0.9), result(candidates[1], 0.95)
    gain = evidence(run, 0.1 if reason == "win" else -0.1, against="r0-00000000")
    results = [
        raced.model_copy(update={"evidence": (gain,), "race": stopped(reason)}),
        full.model_copy(update={"evidence": (evidence(run, 0.4),)}),
    ]
    run.record_round(candidates, results)
    assert (run.decisions[0].verdict, run.decisions[0].accepted, run.decisions[0].kept) == (verdict, accepted, False)
    assert run.decisions[1].family == 2


def test_a_failed_trial_says_why() -> None:
    run = judged_state()
    run_round(run, [(None, [], None)])
    assert (run.decisions[0].verdict, run.decisions[0].explanation) == (None, "failed: no such model")


def test_whoever_only_must_not_be_worse_is_compared_with_the_baseline_lest_small_losses_add_up() -> None:
    run = judged_state(rule="non_inferiority", accept="not_worse")
    decided(run, (0.6, evidence(run, 0.1)))
    assert run.best is not None and run.best.round == 1
    own = evidence(run, -0.04, against="r0-00000000", p_not_worse=0.005)
    [decision] = decided(run, (0.61, own))
    assert (decision.reference, decision.verdict, decision.accepted) == ("r0-00000000", Verdict.NOT_WORSE, True)
    assert decision.kept  # its score beats the best's, too


def test_trials_are_compared_with_the_baseline_and_with_the_best_if_that_is_another_one() -> None:
    run = judged_state()
    assert references_of(run) == (Reference(candidate_id="r0-00000000", config_hash="0" * 64),)
    decided(run, (0.7, evidence(run, 0.2)))
    assert run.best is not None
    assert [reference.candidate_id for reference in references_of(run)] == ["r0-00000000", run.best.candidate_id]


def test_a_best_that_was_a_second_try_is_compared_by_its_own_answers() -> None:
    run = judged_state()
    [candidate], _ = run.admit([proposal(0.1)])
    run.record_round([candidate], [result(candidate, 0.4)])
    [again], _ = run.admit([proposal(0.1, resample=True)])
    run.record_round([again], [result(again, 0.9)])
    assert references_of(run)[-1].first_replicate == again.first_replicate == 1


@pytest.mark.parametrize(("shorter_wins_ties", "kept"), [(False, False), (True, True)])
def test_a_tie_goes_to_the_shorter_texts_where_the_spec_says_so(shorter_wins_ties: bool, kept: bool) -> None:
    optimizer = {"proposer": {"kind": "step"}, "shorter_wins_ties": shorter_wins_ties}
    run = measured_state(0.5, optimizer=optimizer)
    candidates, _ = run.admit([proposal(prompt="{{input.q}}"), proposal(prompt="Do answer this: {{input.q}}")])
    run.record_round(candidates, [result(candidate, 0.5) for candidate in candidates])
    assert [decision.kept for decision in run.decisions] == [kept, False]
    assert run.best is not None and run.best.since_round == 0  # no improvement that counts
    if kept:
        assert run.decisions[0].explanation == "kept: the same score 0.5 as r0-00000000, with shorter texts"


def test_with_several_objectives_the_front_of_all_rounds_is_kept_with_its_verdicts() -> None:
    run = judged_state(objectives=[{"measure": "cost", "direction": "minimize", "margin": 0.001}])

    def found(gain: float, cheaper: float) -> Evidence:
        return evidence(run, gain, against="r0-00000000", objectives={"cost": evidence(run, cheaper, against="r0-00000000")})

    run_round(run, [(0.7, [found(0.2, -0.1)], None), (0.4, [found(-0.1, -0.2)], None)])
    first = run.history[1].candidate_id
    assert [member.candidate_id for member in run.front] == ["r0-00000000", first]
    assert run.front[1].gains == {"exact": 0.2, "cost": -0.1}
    assert run.front[1].verdicts == {"exact": Verdict.BETTER, "cost": Verdict.WORSE}
    run_round(run, [(0.7, [found(0.2, 0.1)], None)])  # beats both
    assert [member.candidate_id for member in run.front] == [run.history[3].candidate_id]
    record = round_record(run, [], [], run.history[3:], NOW)
    assert record.pareto_front == run.front


SHORTER: dict[str, Any] = {"rule": "non_inferiority", "accept": "shorter", "correction": "none"}


def as_good(run: RunState, **changes: Any) -> Evidence:
    return evidence(run, -0.01, sure=False, against="r0-00000000", **{"p_not_worse": 0.04, **changes})


def test_where_length_decides_the_shortest_that_satisfies_the_rule_stands_whatever_its_score() -> None:
    run = judged_state(**SHORTER)
    decisions = decided(run, (0.45, as_good(run)), (0.9, as_good(run)), (0.95, as_good(run, p_not_worse=0.2)))
    assert [decision.kept for decision in decisions] == [True, False, False]
    assert decisions[0].explanation.startswith("kept: shorter than r0-00000000, score 0.45 after 0.5; not worse than")
    assert decisions[1].explanation.startswith(f"dropped: {decisions[0].candidate_id} is shorter (score 0.9)")
    assert decisions[2].explanation.startswith("dropped: it does not satisfy the rule non_inferiority (score 0.95)")
    assert [decision.adjusted_p for decision in decisions] == [0.04, 0.04, 0.2]


def test_where_length_decides_a_longer_candidate_never_stands() -> None:
    run = judged_state(**SHORTER)
    long = proposal(prompt="Answer this at length: {{input.q}}")
    candidates, _ = run.admit([long])
    run.record_round(candidates, [result(candidates[0], 0.9).model_copy(update={"evidence": (as_good(run),)})])
    assert run.best is not None
    assert run.best.candidate_id == "r0-00000000"


def test_where_length_decides_a_won_race_is_enough_and_nothing_is_measured_on() -> None:
    run = judged_state(**SHORTER)
    race = stopped("win")
    candidates, _ = run.admit([proposal(prompt="{{input.q}}")])
    results = [result(candidates[0], 0.7).model_copy(update={"evidence": (as_good(run),), "race": race})]
    assert run.unfinished_winner(candidates, results, []) is None
    [facts] = run.record_round(candidates, results)
    assert (facts.kept, facts.accepted, facts.verdict) == (True, True, "not_worse")
    assert run.best is not None
    assert run.best.score == pytest.approx(0.49)  # what the gain so far promises, not the share of samples that came first


def test_an_optimizer_is_told_how_many_samples_broke() -> None:
    run = judged_state(**SHORTER)
    candidates, _ = run.admit([proposal(prompt="{{input.q}}")])
    found = as_good(run, strict_broken=3, strict_baseline=30)
    [facts] = run.record_round(candidates, [result(candidates[0], 0.5).model_copy(update={"evidence": (found,)})])
    assert facts.regressions == 3
