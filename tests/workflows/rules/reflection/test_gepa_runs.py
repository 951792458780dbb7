"""Whole runs of `gepa` against the rule task, by the rules of real runs, without servers."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from statistics import fmean
from typing import Any

import pytest

from clients.testing import Answer
from ratchet import Record, Sample
from ratchet._canonical import canonical_json
from ratchet.optimizer import StopReason
from tests.support.plugins import ruled
from tests.support.reflection_worlds import REFLECTING, rules_followed, solved, truth
from tests.support.spec_building import request
from workflows.model.run.candidates import ReasonCode
from workflows.model.trial import Purpose
from workflows.rules.spec.check import check_request

ONE_TEXT = {"prompt": ruled.OPENING}
TWO_TEXTS = {"system": ruled.OPENING, "tone": ruled.TONE}
MODES: list[dict[str, Any]] = [{"mode": "improved"}, {"mode": "exact"}]


@pytest.mark.parametrize("options", MODES)
def test_it_learns_the_rules_and_never_overspends(options: dict[str, Any]) -> None:
    run = solved(ONE_TEXT, budget=600, **options)
    assert run.status == "completed"
    assert run.calls <= 600
    assert truth(run.best_configuration) > truth(ONE_TEXT) + 0.1


def test_the_improved_mode_needs_far_fewer_calls_than_the_published_one() -> None:
    for budget in (200, 400):
        improved, exact = (
            [truth(solved(ONE_TEXT, budget=budget, seed=seed, **mode).best_configuration) for seed in range(6)]
            for mode in MODES
        )
        assert fmean(improved) > fmean(exact) + 0.1


@pytest.mark.parametrize("options", MODES)
def test_the_same_run_twice_is_the_same_run(options: dict[str, Any]) -> None:
    once, again = solved(ONE_TEXT, budget=300, **options), solved(ONE_TEXT, budget=300, **options)
    assert once == again
    assert solved(ONE_TEXT, budget=300, seed=8, **options).trials != once.trials


@pytest.mark.parametrize("options", MODES)
def test_what_it_remembers_does_not_grow_with_the_run(options: dict[str, Any]) -> None:
    short, long = (len(canonical_json(dict(solved(ONE_TEXT, budget=budget, **options).state))) for budget in (200, 1500))
    assert long < short + 100


@pytest.mark.parametrize("options", MODES)
def test_lineage_and_origin_of_every_candidate_are_told(options: dict[str, Any]) -> None:
    run = solved(ONE_TEXT, budget=500, **options)
    known: set[str] = set()
    for trial in run.trials:
        if trial.purpose is not Purpose.BASELINE and trial.candidate_id not in known:
            assert trial.extra["origin"] in {"reflection", "recombination"}
            assert trial.extra["operators"]
            assert trial.parent_candidate_ids
            assert set(trial.parent_candidate_ids) <= known
            assert trial.extra["selection"]["pareto_front"]  # type: ignore[index, call-overload]
        known.add(trial.candidate_id)
    assert max(len(trial.parent_candidate_ids) for trial in run.trials) > (1 if options["mode"] == "improved" else 0)


def test_no_answer_is_paid_for_twice() -> None:
    run = solved(ONE_TEXT, budget=600)
    answered = {
        (trial.candidate_id, trial.split, place)
        for trial in run.trials
        for place, mean in enumerate(trial.sample_means)
        if mean is not None
    }
    assert run.calls == len(answered)


def test_without_training_samples_and_without_a_budget_a_run_has_its_rounds() -> None:
    run = solved(ONE_TEXT, train=0, stop={"max_rounds": 3}, steps_per_round=3)
    assert run.stop_reason in {StopReason.MAX_ROUNDS, StopReason.CONVERGENCE}
    assert len(run.rounds) <= 4
    assert truth(run.best_configuration) > truth(ONE_TEXT)


def test_rounds_that_find_nothing_better_end_a_run_without_a_budget_after_a_few() -> None:
    best = {"prompt": "\n".join([ruled.OPENING, *(f"Rule {rule} applies." for rule in range(ruled.USEFUL))])}
    run = solved(best, steps_per_round=2)
    assert (run.status, run.stop_reason) == ("completed", StopReason.CONVERGENCE)
    assert len(run.rounds) >= 4
    assert truth(run.best_configuration) > truth(best) - 0.06


def test_where_lower_is_better_it_goes_down() -> None:
    def wrong(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> Answer:
        answer = rules_followed(7, configuration, sample, replicate)
        return Answer(100 * (1 - answer.score), answer.feedback)

    run = solved(ONE_TEXT, budget=600, target=wrong, objective={"metric": "score", "direction": "minimize"})
    assert run.best_score is not None
    assert run.baseline_score is not None
    assert run.best_score < run.baseline_score
    assert truth(run.best_configuration) > truth(ONE_TEXT) + 0.1


@pytest.mark.parametrize(
    "options", [*MODES, {"mode": "exact", "merges": 5, "candidates_per_round": 2}, {"components": "round_robin"}]
)
def test_several_texts_are_rewritten_in_one_configuration(options: dict[str, Any]) -> None:
    run = solved(TWO_TEXTS, budget=900, **options)
    assert run.calls <= 900
    assert truth(run.best_configuration) > truth(TWO_TEXTS) + 0.1
    if options.get("components") == "round_robin" or options.get("mode") == "exact":
        assert {name for trial in run.trials for name in trial.extra.get("components", [])} == {"system", "tone"}  # type: ignore[union-attr]
    if "merges" in options:
        assert any(trial.extra.get("origin") == "merge" for trial in run.trials)


@pytest.mark.parametrize("options", MODES)
def test_a_baseline_that_cannot_be_improved_is_kept(options: dict[str, Any]) -> None:
    best = {"prompt": "\n".join([ruled.OPENING, *(f"Rule {rule} applies." for rule in range(ruled.USEFUL))])}
    ends = [truth(solved(best, budget=500, seed=seed, **options).best_configuration) for seed in range(5)]
    assert fmean(ends) > truth(best) - 0.03


@pytest.mark.parametrize("options", MODES)
def test_a_proposer_that_has_no_ideas_ends_the_search_instead_of_the_budget(options: dict[str, Any]) -> None:
    run = solved(ONE_TEXT, propose=ruled.says_the_same, **options)
    assert (run.status, run.stop_reason) == ("completed", StopReason.CONVERGENCE)


def test_a_lost_placeholder_is_put_back() -> None:
    run = solved(ONE_TEXT, budget=200, propose=ruled.loses_the_placeholder)
    assert {rejection.reason_code for rejection in run.rejections} <= {ReasonCode.DUPLICATE}
    rewritten = [str(trial.configuration["prompt"]) for trial in run.trials if trial.purpose is not Purpose.BASELINE]
    assert any(text.startswith("Rule 0 applies.") for text in rewritten)
    assert all(ruled.OPENING in text for text in rewritten)


def test_texts_that_share_no_line_are_searched_by_whole_candidates() -> None:
    def anew(current: Mapping[str, Any], records: list[Record], factors: list[str]) -> Mapping[str, Any]:
        text = str(ruled.reflect(current, records, factors)[factors[0]])
        rules = sorted(ruled.rules_of([text]))
        word = Random(text).randrange(10**6)
        return {factors[0]: "\n".join([ruled.OPENING, *(f"Rule {rule} applies, in word {word}." for rule in rules)])}

    run = solved(ONE_TEXT, budget=800, propose=anew)
    assert truth(run.best_configuration) > truth(ONE_TEXT) + 0.1


def test_a_failed_proposal_costs_its_place_only() -> None:
    turns = iter(range(10_000))

    def sometimes(current: Mapping[str, Any], records: list[Record], factors: list[str]) -> Mapping[str, Any]:
        return {factors[0]: float("nan")} if next(turns) % 3 == 0 else ruled.reflect(current, records, factors)

    run = solved(ONE_TEXT, budget=300, propose=sometimes)
    assert run.status == "completed"
    assert ReasonCode.PROPOSAL_FAILED in {rejection.reason_code for rejection in run.rejections}
    assert truth(run.best_configuration) > truth(ONE_TEXT)


def test_the_exact_mode_takes_the_published_settings_for_granted() -> None:
    exact = request(optimizer={**REFLECTING, "mode": "exact"}).optimizer.model_dump()
    assert (exact["candidates_per_round"], exact["minibatch"], exact["components"]) == (1, 3, "round_robin")
    stated = request(optimizer={**REFLECTING, "mode": "exact", "minibatch": 5}).optimizer.model_dump()
    assert (stated["candidates_per_round"], stated["minibatch"]) == (1, 5)


def test_what_cannot_work_is_refused_with_the_fix() -> None:
    merging = request(optimizer={**REFLECTING, "merges": 3})
    assert any("drop merges, or say mode: exact" in problem for problem in check_request(merging))
    alone = request(optimizer={**REFLECTING, "mode": "exact", "merges": 3})
    assert any("1 may change; drop merges" in problem for problem in check_request(alone))
    frozen = request(optimizer={**REFLECTING, "factors": ["temperature"]})
    assert any("no treated factor is text" in problem for problem in check_request(frozen))
