"""Whole runs of `reflect` and `gepa` against the rule task, by the rules of real runs, without servers."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from statistics import fmean
from typing import Any

import pytest
from pydantic import ValidationError

from clients.testing import Answer
from ratchet import Record, Sample
from ratchet._formats.canonical import canonical_json
from ratchet._text.explanation import explain
from ratchet.optimizer import StopReason
from tests.support.plugins import ruled
from tests.support.reflection_worlds import GEPA, REFLECT, rules_followed, solved, truth
from tests.support.spec_building import request
from workflows.model.run.candidates import ReasonCode
from workflows.model.trial import Purpose
from workflows.rules.spec.check import check_request

ONE_TEXT = {"prompt": ruled.OPENING}
TWO_TEXTS = {"system": ruled.OPENING, "tone": ruled.TONE}
BOTH: list[dict[str, Any]] = [REFLECT, GEPA]

both = pytest.mark.parametrize("optimizer", BOTH, ids=["reflect", "gepa"])


@both
def test_it_learns_the_rules_and_never_overspends(optimizer: dict[str, Any]) -> None:
    run = solved(ONE_TEXT, budget=600, optimizer=optimizer)
    assert run.status == "completed"
    assert run.calls <= 600
    assert truth(run.best_configuration) > truth(ONE_TEXT) + 0.1


def test_reflect_needs_far_fewer_calls_than_the_published_algorithm() -> None:
    for budget in (200, 400):
        reflecting, published = (
            [truth(solved(ONE_TEXT, budget=budget, seed=seed, optimizer=each).best_configuration) for seed in range(6)]
            for each in BOTH
        )
        assert fmean(reflecting) > fmean(published) + 0.1


@both
def test_the_same_run_twice_is_the_same_run(optimizer: dict[str, Any]) -> None:
    once, again = solved(ONE_TEXT, budget=300, optimizer=optimizer), solved(ONE_TEXT, budget=300, optimizer=optimizer)
    assert once == again
    assert solved(ONE_TEXT, budget=300, seed=8, optimizer=optimizer).trials != once.trials


@both
def test_what_it_remembers_does_not_grow_with_the_run(optimizer: dict[str, Any]) -> None:
    short, long = (
        len(canonical_json(dict(solved(ONE_TEXT, budget=budget, optimizer=optimizer).state))) for budget in (200, 1500)
    )
    assert long < short + 100


@both
def test_lineage_and_origin_of_every_candidate_are_told(optimizer: dict[str, Any]) -> None:
    run = solved(ONE_TEXT, budget=500, optimizer=optimizer)
    known: set[str] = set()
    for trial in run.trials:
        if trial.purpose is not Purpose.BASELINE and trial.candidate_id not in known:
            assert trial.extra["origin"] in {"reflection", "recombination"}
            assert trial.extra["operators"]
            assert trial.parent_candidate_ids
            assert set(trial.parent_candidate_ids) <= known
        known.add(trial.candidate_id)
    assert max(len(trial.parent_candidate_ids) for trial in run.trials) > (1 if optimizer is REFLECT else 0)


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
    "optimizer", [*BOTH, {**GEPA, "merges": 5, "candidates_per_round": 2}, {**REFLECT, "components": "round_robin"}]
)
def test_several_texts_are_rewritten_in_one_configuration(optimizer: dict[str, Any]) -> None:
    run = solved(TWO_TEXTS, budget=900, optimizer=optimizer)
    assert run.calls <= 900
    assert truth(run.best_configuration) > truth(TWO_TEXTS) + 0.1
    if optimizer.get("components") == "round_robin" or optimizer["name"] == "gepa":
        assert {name for trial in run.trials for name in trial.extra.get("components", [])} == {"system", "tone"}  # type: ignore[union-attr]
    if "merges" in optimizer:
        assert any(trial.extra.get("origin") == "merge" for trial in run.trials)


@both
def test_a_baseline_that_cannot_be_improved_is_kept(optimizer: dict[str, Any]) -> None:
    best = {"prompt": "\n".join([ruled.OPENING, *(f"Rule {rule} applies." for rule in range(ruled.USEFUL))])}
    ends = [truth(solved(best, budget=500, seed=seed, optimizer=optimizer).best_configuration) for seed in range(5)]
    assert fmean(ends) > truth(best) - 0.03


@both
def test_a_proposer_that_has_no_ideas_ends_the_search_instead_of_the_budget(optimizer: dict[str, Any]) -> None:
    run = solved(ONE_TEXT, propose=ruled.says_the_same, optimizer=optimizer)
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


def test_each_has_settings_of_its_own() -> None:
    published = request(optimizer=GEPA).optimizer.model_dump()
    assert (published["candidates_per_round"], published["minibatch"], published["components"]) == (1, 3, "round_robin")
    reflecting = request(optimizer=REFLECT).optimizer.model_dump()
    assert (reflecting["candidates_per_round"], reflecting["minibatch"], reflecting["components"]) == (4, 10, "all")
    stated = request(optimizer={**GEPA, "minibatch": 5}).optimizer.model_dump()
    assert (stated["candidates_per_round"], stated["minibatch"]) == (1, 5)


@pytest.mark.parametrize("mode", ["improved", "exact", None])
def test_a_spec_of_the_time_of_modes_is_told_which_optimizer_it_means(mode: str | None) -> None:
    with pytest.raises(ValidationError) as refused:
        request(optimizer={**GEPA, "mode": mode, "steps_per_round": 3})
    assert explain(refused.value) == [
        "optimizer.mode: gepa is the published algorithm now; use `optimizer: reflect` for the other one, and leave mode out"
    ]


@pytest.mark.parametrize(
    ("optimizer", "field"),
    [({**REFLECT, "merges": 3}, "merges"), ({**REFLECT, "mode": "exact"}, "mode"), ({**GEPA, "brevity": 0.1}, "brevity")],
)
def test_neither_takes_what_only_the_other_one_has(optimizer: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        request(optimizer=optimizer)
    assert explain(refused.value) == [f"optimizer.{field}: is not a known field; remove it or check its spelling"]


def test_what_cannot_work_is_refused_with_the_fix() -> None:
    alone = request(optimizer={**GEPA, "merges": 3})
    assert any("1 may change; drop merges" in problem for problem in check_request(alone))
    for optimizer in BOTH:
        frozen = request(optimizer={**optimizer, "factors": ["temperature"]})
        assert any("no treated factor is text" in problem for problem in check_request(frozen))
