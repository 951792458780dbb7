"""What a worker counts, with the real meter of Temporal's SDK, and what it costs where nobody asked for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.common import MetricMeter

from activities.concurrency.in_flight_limits import NOBODY
from activities.endpoints.gate import Gates
from activities.observation.call_observation import CallFacts, CallObservation, outcome_of
from activities.observation.worker_meters import WorkerMeters
from activities.targets.faults import CandidateFault, Refused, Throttled, TookTooLong, Unreachable
from tests.support.counted import Counted
from workflows.metrics import OUTCOMES
from workflows.model.suite import Outcome, UnscoredAnswer


def outcome(status: Any, **more: Any) -> Outcome:
    return Outcome(item_hash="h", replicate=0, status=status, scores={}, passed=False, **more)


def entries(*given: Outcome | UnscoredAnswer) -> list[Outcome | UnscoredAnswer]:
    return [*given]


def kept(**more: Any) -> UnscoredAnswer:
    return UnscoredAnswer(answer_id=1, item_hash="h", replicate=0, value="v", **more)


def test_an_answer_counts_once_however_often_it_is_stored_on_its_way_to_a_score(counted: Counted) -> None:
    meters = WorkerMeters(counted.meter)
    batch: list[Outcome | UnscoredAnswer] = [
        outcome("answered"),
        outcome("failed"),
        outcome("unscored"),
        kept(),
        outcome("answered", was_kept=True),
    ]
    meters.stored("chat", batch, elsewhere=False)
    assert counted.sums() == {
        ("ratchet_answers", "chat", "answered"): 3,
        ("ratchet_answers", "chat", "failed"): 1,
        ("ratchet_scores", "scored"): 2,
        ("ratchet_scores", "failed"): 1,
    }


def test_what_others_called_is_counted_with_their_answers(counted: Counted) -> None:
    batch: list[Outcome | UnscoredAnswer] = [
        kept(tokens=5, cost=0.5),
        outcome("answered", tokens=7, cost=0.25),
        outcome("answered", tokens=5, was_kept=True),
    ]
    WorkerMeters(counted.meter).stored("activity", batch, elsewhere=True)
    sums = counted.sums()
    assert sums["ratchet_tokens", "elsewhere", "unsplit", "other"] == 12
    assert sums["ratchet_call_cost", "elsewhere", "other"] == 0.75


def test_everything_that_can_be_counted_is_shown_at_zero_before_it_happens(counted: Counted) -> None:
    WorkerMeters(counted.meter).begin_at_zero(["chat", "http"])
    sums = counted.sums()
    assert set(sums.values()) == {0}
    assert {("ratchet_answers", "http", "failed"), ("ratchet_lost_calls",), ("ratchet_scores", "failed")} <= sums.keys()


def test_tokens_are_split_as_far_as_the_endpoint_says(counted: Counted) -> None:
    meters = WorkerMeters(counted.meter, ["big-model"])
    meters.took("chat", 12, 0.0, meters.model_label("big-model"), (7, 3))
    meters.took("chat", 4, 0.0, meters.model_label("a model that a spec made up"))
    tokens = {
        labels: number
        for (name, *labels_), number in counted.sums().items()
        if name == "ratchet_tokens"
        for labels in [tuple(labels_)]
    }
    assert tokens == {
        ("chat", "input", "big-model"): 7,
        ("chat", "output", "big-model"): 3,
        ("chat", "unsplit", "big-model"): 2,
        ("chat", "unsplit", "other"): 4,
    }


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (CandidateFault("no"), "failed"),
        (TookTooLong("late"), "failed"),
        (Unreachable("away"), "unreachable"),
        (Throttled("busy", None), "throttled"),
        (Refused("key"), "refused"),
        (ValueError("bug"), "failed"),
        (asyncio.CancelledError(), "given_up"),
    ],
)
def test_a_call_ends_in_one_of_few_ways(error: BaseException, outcome: str, counted: Counted) -> None:
    observation = CallObservation(WorkerMeters(counted.meter))
    with pytest.raises(type(error)), observation.of(CallFacts("http")):
        raise error
    assert outcome_of(error) == outcome
    assert outcome in OUTCOMES
    assert counted.sums().keys() == {("ratchet_call_duration_seconds", "http", outcome)}


def test_a_call_that_fails_has_cost_what_it_says(counted: Counted) -> None:
    observation = CallObservation(WorkerMeters(counted.meter))
    with pytest.raises(CandidateFault), observation.of(CallFacts("chat", model="m")):
        raise CandidateFault("empty", tokens=9, cost=0.125)
    sums = counted.sums()
    assert sums["ratchet_tokens", "chat", "unsplit", "other"] == 9
    assert sums["ratchet_call_cost", "chat", "other"] == 0.125


async def test_each_call_tells_how_long_it_stood_at_the_gate(counted: Counted) -> None:
    gates = Gates(meters=WorkerMeters(counted.meter, ["m"]))
    for model in ("m", "n", "m"):
        async with gates.at("http://here", model).call(NOBODY):
            pass
    waits = [update for update in counted.updates() if update.metric.name == "ratchet_gate_wait_seconds"]
    assert sorted(update.attributes["model"] for update in waits) == ["m", "m", "other"]
    assert all(update.value >= 0 for update in waits)


def test_without_metrics_nothing_is_made_of_a_call() -> None:
    meters = WorkerMeters()
    with CallObservation(meters).of(CallFacts("chat", model="m")) as seen:
        seen.took(3, 0.5)
    assert seen.headers == {}
    assert MetricMeter.noop.create_counter("x").name == "x"
