"""`search`: what it asks of the computation, what it proposes, and which specs it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from clients.testing import World, simulate
from ratchet._text.explanation import explain
from ratchet.optimizer import OptimizerState, TrialHistory
from tests.support.fake_frame import FakeFrame
from tests.support.searches import choice, flag, integer, number, order
from tests.support.spec_building import request
from workflows.model.run.contract import Proposed
from workflows.optimizers.frame import ProposalFailed
from workflows.optimizers.search import Search
from workflows.rules.spec.check import check_request

CONFIGURATION = {
    "prompt": {"value": "Answer {{input.q}}", "change": "text"},
    "temperature": number(0.5),
    "model": choice("small", "large"),
}


def _frame(**options: Any) -> tuple[Search, FakeFrame]:
    frame = FakeFrame(configuration=CONFIGURATION, optimizer={"name": "search", **options})
    return Search(frame.made.optimizer, frame), frame  # type: ignore[arg-type]


def _found(*values: dict[str, Any], exhausted: bool = False) -> dict[str, Any]:
    return {"suggestions": [{"values": one, "by": "tpe"} for one in values], "cursor": 3, "exhausted": exhausted}


async def test_suggested_values_are_put_into_the_best_candidate_and_the_rest_is_held() -> None:
    search, frame = _frame()
    frame.configurations["r3"] = {"prompt": "Better {{input.q}}", "temperature": 0.5, "model": "small"}
    frame.computed = [_found({"temperature": 0.2, "model": "small"}, {"temperature": 0.5, "model": "large"})]
    state = OptimizerState(generation=2, best_candidate_id="r3", algorithm_data={"cursor": 1})
    proposals = await search.propose(state, TrialHistory(), 4)
    assert [proposal.configuration for proposal in proposals] == [
        {"prompt": "Better {{input.q}}", "temperature": 0.2, "model": "small"},
        {"prompt": "Better {{input.q}}", "temperature": 0.5, "model": "large"},
    ]
    assert [proposal.extra for proposal in proposals] == [
        {"origin": "search", "operators": ["tpe"], "components": ["temperature"]},
        {"origin": "search", "operators": ["tpe"], "components": ["model"]},
    ]
    assert {proposal.parent_candidate_ids for proposal in proposals} == {("r3",)}
    [asked] = frame.asked
    arguments = asked["arguments"]
    assert set(arguments["factors"]) == {"temperature", "model"}
    assert (arguments["base"], arguments["wanted"], arguments["batch"], arguments["cursor"]) == ("r3", 4, 2, 1)
    assert asked["reads"].bounded.candidates == ("r3",)


async def test_it_stops_when_every_combination_was_tried() -> None:
    search, frame = _frame()
    frame.computed = [_found({"temperature": 0.2, "model": "small"}, exhausted=True)]
    state = search.initialize(frame.context)
    await search.propose(state, TrialHistory(), 4)
    decision = search.should_stop(search.observe(state, []), TrialHistory())
    assert (decision.should_stop, decision.reason) == (True, "convergence")


async def test_every_second_round_rewrites_texts_where_there_is_a_proposer() -> None:
    search, frame = _frame(proposer={"kind": "python", "ref": "m:f"}, candidates_per_round=1)
    frame.computed = [_found({"temperature": 0.2, "model": "small"})]
    frame.answers = [Proposed(values={"prompt": "Shorter {{input.q}}", "temperature": 0.9})]
    first = await search.propose(OptimizerState(generation=0, best_candidate_id="r0"), TrialHistory(), 4)
    second = await search.propose(OptimizerState(generation=1, best_candidate_id="r0"), TrialHistory(), 4)
    assert [proposal.extra["components"] for proposal in (*first, *second)] == [["temperature"], ["prompt"]]
    assert second[0].configuration == {"prompt": "Shorter {{input.q}}", "temperature": 0.5, "model": "small"}
    assert frame.asked[1]["factors"] == ("prompt",)


async def test_a_computation_that_fails_costs_the_round() -> None:
    search, frame = _frame()
    frame.computed = [ProposalFailed("no memory")]
    with pytest.raises(ProposalFailed, match="no memory"):
        await search.propose(search.initialize(frame.context), TrialHistory(), 4)


def test_all_of_a_budget_is_searched_unless_the_spec_says_otherwise() -> None:
    assert request(configuration=CONFIGURATION, optimizer="search").stop.no_improvement == 0
    assert request(configuration=CONFIGURATION, optimizer="search", stop={"no_improvement": 3}).stop.no_improvement == 3


def test_the_sampler_is_told_in_words() -> None:
    assert request(configuration=CONFIGURATION, optimizer="search").optimizer.describe(None) == "Structured search (auto)"


TEXT = {"value": "Say {{input.q}}", "change": "text"}


@pytest.mark.parametrize(
    ("configuration", "optimizer", "problem"),
    [
        ({"prompt": TEXT}, {}, "configuration: has no structured factor to search"),
        ({"prompt": TEXT, "x": number(0.5)}, {"factors": ["y"]}, "optimizer.factors: 'y' is no factor; known are prompt, x"),
        ({"prompt": TEXT, "x": number(0.5)}, {"factors": ["prompt"]}, "optimizer.factors: 'prompt' is not searched"),
        ({"prompt": TEXT, "x": number(0.5)}, {"sampler": "grid"}, "configuration.x.step: is missing, and a grid needs it"),
        (
            {"prompt": "Say {{input.q}}", "x": number(0.5)},
            {"proposer": {"kind": "python", "ref": "m:f"}},
            "has no text to rewrite",
        ),
        ({"prompt": TEXT, "x": number(0.5, when={"y": 1})}, {}, "configuration.x.when: 'y' is no factor"),
        ({"prompt": TEXT, "x": number(0.5, when={"y": "on"}), "y": flag()}, {}, 'y never has the value "on"'),
        ({"prompt": TEXT, "x": integer(1, 0, 2, when={"y": 1}), "y": integer(1, 0, 2, when={"x": 1})}, {}, "break the circle"),
    ],
)
def test_a_spec_that_cannot_work_is_told_with_the_fix(
    configuration: dict[str, Any], optimizer: dict[str, Any], problem: str
) -> None:
    problems = check_request(request(configuration=configuration, optimizer={"name": "search", **optimizer}))
    assert any(problem in told for told in problems), problems


def test_a_sampler_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValidationError) as refused:
        request(configuration=CONFIGURATION, optimizer={"name": "search", "sampler": "cmaes"})
    told = "optimizer.sampler: use one of 'auto', 'tpe', 'random' or 'grid' (is \"cmaes\")"
    assert explain(refused.value) == [told]


def test_a_space_of_every_kind_is_a_fine_spec() -> None:
    factors = {"a": number(0.5), "b": integer(1, 0, 9), "c": choice("x", "y"), "d": flag(), "e": order(1, 2, 3)}
    conditional = {"f": number(0.1, 0.001, 1, scale="log", when={"c": "y", "d": [True]})}
    spec = request(configuration={"prompt": TEXT, "model": "small", **factors, **conditional}, optimizer="search")
    assert check_request(spec) == []


def test_the_history_says_who_suggested_what() -> None:
    spec = {
        "configuration": {"x": number(0.5)},
        "optimizer": {"name": "search"},
        "budget": {"trials": 40},
        "stop": {"max_rounds": 99},
    }
    run = simulate(spec, World(target=lambda configuration, *_: -abs(configuration["x"] - 0.2), samples=["one"]))
    assert {trial.extra["origin"] for trial in run.trials[1:]} == {"search"}
    assert {tuple(trial.extra["operators"]) for trial in run.trials[1:]} == {("tpe",), ("model",)}  # type: ignore[arg-type]
    assert all(trial.parent_candidate_ids for trial in run.trials[1:])
    assert run.best_score is not None and run.best_score > -0.01
