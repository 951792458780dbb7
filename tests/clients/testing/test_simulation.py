"""Simulated runs: the rules of real ones, without servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from clients.testing import Answer, World, simulate, simulate_async
from ratchet import Record, Sample
from ratchet._formats.canonical import content_hash, derive_seed
from tests.support.engines import Engines
from tests.support.plugins.plugged import TOP, hash_of

NUMBER = {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}


def request(**parts: Any) -> dict[str, Any]:
    return {
        "configuration": {"x": NUMBER, "unit": "metre"},
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
        "stop": {"max_rounds": 20, "no_improvement": 0},
        "seed": 7,
    } | parts


def hill(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> float:
    """As high as x is, and no sample says the same twice."""
    noise = Random(derive_seed(0, content_hash(dict(configuration)), sample.id, replicate)).uniform(-0.01, 0.01)
    return float(configuration["x"]) / 1000 + noise


def counted(calls: Counter[tuple[int, str, int]]) -> Callable[[Mapping[str, Any], Sample, int], float]:
    def target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> float:
        calls[configuration["x"], sample.id, replicate] += 1
        return hill(configuration, sample, replicate)

    return target


def test_an_optimizer_finds_the_way_up() -> None:
    run = simulate(request(), World(target=hill, samples=range(8)))
    assert (run.status, run.stop_reason) == ("completed", "max_rounds")
    assert run.best_score is not None and run.baseline_score is not None
    assert run.best_score > run.baseline_score
    assert run.best_configuration["x"] > 10
    assert [trial.score for trial in run.history] == [trial.score for trial in run.trials]


def test_the_same_request_and_the_same_world_give_the_same_run() -> None:
    world = World(target=hill, samples=range(8))
    assert simulate(request(), world) == simulate(request(), world)
    assert simulate(request(seed=8), world) != simulate(request(), world)


def test_nothing_is_asked_twice_and_fresh_answers_are_other_replicates() -> None:
    calls: Counter[tuple[int, str, int]] = Counter()
    noop = {"name": "refine", "proposer": {"kind": "noop"}}
    run = simulate(request(optimizer=noop, stop={"max_rounds": 3}), World(target=counted(calls), samples=range(5)))
    assert set(calls.values()) == {1}
    assert {replicate for _, _, replicate in calls} == {0, 1, 2, 3}
    assert run.calls == sum(calls.values()) == 20


@pytest.mark.parametrize("budget", [8, 9, 63, 64, 100])
def test_a_budget_counts_calls_of_the_target_and_is_never_overshot(budget: int) -> None:
    calls: Counter[tuple[int, str, int]] = Counter()
    wide = {"name": "refine", "proposer": {"kind": "step"}, "candidates_per_round": 3}
    run = simulate(request(optimizer=wide, budget={"samples": budget}), World(target=counted(calls), samples=range(8)))
    assert run.calls == sum(calls.values())
    assert budget - 8 < run.calls <= budget
    assert run.stop_reason == "sample_budget"


def test_a_baseline_that_the_budget_does_not_cover_fails_the_run() -> None:
    run = simulate(request(budget={"samples": 7}), World(target=hill, samples=range(8)))
    assert (run.status, run.stop_reason) == ("failed", "sample_budget")
    assert "before the baseline was measured" in run.message
    assert run.calls <= 7


def test_the_worlds_proposer_stands_for_a_model_and_reads_what_went_wrong() -> None:
    seen: list[list[Record]] = []

    def target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> tuple[float, str]:
        return (1.0, "") if sample.input in configuration["prompt"] else (0.0, f"say {sample.input}")

    def learn(current: Mapping[str, Any], records: list[Record], factors: list[str], seed: int) -> Mapping[str, Any]:
        seen.append(records)
        return {"prompt": f"{current['prompt']} {records[0].feedback}"}

    spec = request(
        configuration={"prompt": {"value": "Answer.", "change": "text"}},
        optimizer={"name": "refine", "proposer": {"kind": "model", "model": "none", "examples": 2}},
        stop={"max_rounds": 9, "score": 1.0},
    )
    run = simulate(spec, World(target=target, samples=["please", "thanks", "bye"], propose=learn))
    assert run.stop_reason == "target_reached"
    assert run.best_configuration == {"prompt": "Answer. say please say thanks say bye"}
    assert [record.feedback for record in seen[0]] == ["say please", "say thanks"]
    assert run.proposals == 3


def test_async_targets_are_awaited_and_answers_may_say_what_they_took() -> None:
    async def target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> Answer:
        return Answer(0.5, tokens=7)

    run = simulate(request(stop={"max_rounds": 2}), World(target=target, samples=range(4)))
    assert run.rounds[-1].spend.tokens == run.calls * 7


@pytest.mark.parametrize(("answer", "told"), [(float("nan"), "scores are finite"), ("good", "return a score")])
def test_a_target_that_gives_no_score_is_told_so(answer: Any, told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        simulate(request(), World(target=lambda *_: answer, samples=range(4)))


def test_a_spec_that_is_wrong_costs_nothing() -> None:
    calls: Counter[tuple[int, str, int]] = Counter()
    wrong = request(optimizer={"name": "refine", "proposer": {"kind": "step"}, "factors": ["nope"]})
    with pytest.raises(ValueError, match="nope"):
        simulate(wrong, World(target=counted(calls), samples=range(4)))
    assert not calls


def test_evolve_explores_the_training_samples_without_a_server() -> None:
    def injured(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> tuple[float, str]:
        return float(configuration["health_threshold"]) + sample.input / 1000, "hurt"

    spec = request(
        configuration={"health_threshold": {"value": 0.3, "change": "structured", "type": "number", "min": 0, "max": 1}},
        optimizer={
            "name": "evolve",
            "classifier": "kit:failures",
            "table": [{"failure": "injury", "more_than": 2, "mutation": {"kind": "threshold", "factor": "health_threshold"}}],
            "padding": [],
        },
        stop={"max_rounds": 3, "no_improvement": 0},
    )
    run = simulate(
        spec,
        World(
            target=injured,
            samples=range(30),
            train=range(10),
            plugins={"kit:failures": lambda records: {"injury": len(records)}},
        ),
    )
    assert run.best_configuration == {"health_threshold": 0.6}
    explored = [trial for trial in run.trials if trial.split == "train"]
    assert [len(trial.sample_means) for trial in explored] == [10, 10, 10]
    assert [trial.candidate_id for trial in run.history] == [t.candidate_id for t in run.trials if t.split != "train"]


async def test_a_simulated_run_decides_what_the_real_one_decides(engines: Engines, spec: Callable[..., dict[str, Any]]) -> None:
    """The height of `plugged:hill`, in place."""
    given = spec(
        name="twin",
        optimizer={"name": "refine", "proposer": {"kind": "step"}, "candidates_per_round": 2},
        stop={"max_rounds": 8, "no_improvement": 0},
    )
    real = await engines.run(given)

    def target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> float:
        return 1 - abs(configuration["x"] - TOP) / 1000 + (hash_of(sample.id) % 10) / 1000  # type: ignore[no-any-return]

    metric = {"scorers": [{"kind": "reported", "name": "height"}], "objective": {"metric": "height"}}
    simulated = await simulate_async({**given, **metric}, World(target=target, samples=range(8)))
    assert simulated.best_candidate_id == real["best_candidate_id"]
    assert simulated.calls == real["spend"]["samples"]
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT candidate_id, score, judged ->> 'verdict' AS verdict FROM trials WHERE run_id = $1 ORDER BY round, index",
            real["optimization_id"],
        )
    told = [(trial.candidate_id, round(trial.score or 0.0, 12), trial.verdict) for trial in simulated.history]
    assert told == [(row["candidate_id"], round(row["score"], 12), row["verdict"]) for row in rows]
