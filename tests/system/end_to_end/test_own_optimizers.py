"""A user's optimizer, by reference, in whole runs: it runs in an activity, and nothing about the run is different for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from clients.testing import World, simulate_async
from ratchet import Sample
from tests.support.engines import Engines
from tests.support.plugins.plugged import TOP, hash_of
from tests.support.run_views import failure_of

Spec = Callable[..., dict[str, Any]]


def own(ref: str = "own_optimizers:Stepper", **parts: Any) -> dict[str, Any]:
    return {"name": "python", "ref": ref, "candidates_per_round": 2, **parts}


async def trials_of(engines: Engines, run_id: str) -> list[Any]:
    async with engines.database.connection() as connection:
        return list(
            await connection.fetch(
                "SELECT t.candidate_id, t.score, c.rationale, c.parent_candidate_ids FROM trials t"
                " JOIN candidates c USING (run_id, candidate_id) WHERE run_id = $1 ORDER BY t.round, t.index",
                run_id,
            )
        )


async def steps_of(handle: WorkflowHandle[Any, Any]) -> list[dict[str, Any]]:
    """What the optimizer answered, step by step, as the run's history has it."""
    completed = [
        event.activity_task_completed_event_attributes.result.payloads
        for event in (await handle.fetch_history()).events
        if event.HasField("activity_task_completed_event_attributes")
    ]
    return [json.loads(payloads[0].data) for payloads in completed if payloads and b'"decision"' in payloads[0].data]


async def test_it_proposes_observes_and_finds_something_better(engines: Engines, spec: Spec) -> None:
    result = await engines.run(spec(optimizer=own(), stop={"max_rounds": 6, "no_improvement": 0}))
    assert (result["status"], result["stop_reason"]) == ("completed", "max_rounds")
    assert result["best_score"] > result["baseline_score"]
    assert result["counts"]["completed"] == 13
    trials = await trials_of(engines, result["optimization_id"])
    assert all(trial["rationale"].startswith("from ") and trial["parent_candidate_ids"] for trial in trials[1:])


async def test_it_is_told_configurations_scores_by_sample_and_what_went_wrong(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(optimizer=own(examples=3), stop={"max_rounds": 2, "no_improvement": 0}))
    await handle.result()
    steps = await steps_of(handle)
    assert [step["state"]["generation"] for step in steps] == [0, 1]
    first, second = steps
    assert (first["state"]["algorithm_data"]["from"], first["state"]["algorithm_data"]["max"]) == (10, 1000)
    tried = [proposal["configuration"]["x"] for proposal in first["proposals"]]
    assert second["state"]["algorithm_data"]["told"] == [[8, 3, x] for x in tried]


async def test_a_simulated_run_of_it_decides_the_same(engines: Engines, spec: Spec) -> None:
    given = spec(optimizer=own(), stop={"max_rounds": 6, "no_improvement": 0})
    real = await engines.run(given)

    def target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> float:
        return 1 - abs(configuration["x"] - TOP) / 1000 + (hash_of(sample.id) % 10) / 1000  # type: ignore[no-any-return]

    from tests.support.plugins.own_optimizers import Stepper

    metric = {"scorers": [{"kind": "reported", "name": "height"}], "objective": {"metric": "height"}}
    simulated = await simulate_async({**given, **metric}, World(target=target, samples=range(8)), optimizer=Stepper)
    trials = await trials_of(engines, real["optimization_id"])
    assert [trial.candidate_id for trial in simulated.history] == [trial["candidate_id"] for trial in trials]


async def test_async_ones_and_continue_as_new_change_nothing(engines: Engines, spec: Spec) -> None:
    rounds = {"max_rounds": 5, "no_improvement": 0}
    whole = await engines.run(spec(name="whole-own", optimizer=own(), stop=rounds))
    cut = await engines.run(
        spec(
            name="cut-own",
            optimizer=own("own_optimizers:AsyncStepper"),
            stop=rounds,
            execution={"max_rounds_per_execution": 1},
        )
    )
    for same in ("best_candidate_id", "counts", "spend"):
        assert cut[same] == whole[same]


async def test_it_may_measure_parts_first_and_is_told_what_they_gave(engines: Engines, spec: Spec) -> None:
    items = [{"id": f"s{n}", "input": n} for n in range(16)]
    dataset = {"items": items, "splits": {"train": 0.5, "validation": 0.5}}
    rounds = {"max_rounds": 2, "no_improvement": 0}
    handle = await engines.start(spec(optimizer=own("own_optimizers:Peeks"), dataset=dataset, stop=rounds))
    result = await handle.result()
    assert result["rounds"] == 2
    assert result["spend"]["samples"] == 8 + 2 * (2 * 3 + 8)
    second = (await steps_of(handle))[1]
    for told in second["state"]["algorithm_data"]["told"]:
        scores, shown = told[:8], told[8:]
        assert [score is None for score in scores] == [True, *[False] * 3, *[True] * 4]
        assert len(shown) == 3, "the records of these samples, and of no others"


async def test_it_may_decide_to_stop_and_says_why(engines: Engines, spec: Spec) -> None:
    impatient = own(options={"patience": 1, "size": 0})
    result = await engines.run(spec(optimizer=impatient, stop={"max_rounds": 50, "no_improvement": 0}))
    assert (result["stop_reason"], result["message"]) == ("convergence", "Nothing better for a while")
    assert result["rounds"] == 1, "deciding to stop is no round"


async def test_the_run_knows_which_code_it_was(engines: Engines, spec: Spec) -> None:
    stated = await engines.start(spec(optimizer=own(version="7"), stop={"max_rounds": 1}))
    await stated.result()
    hashed = await engines.start(spec(optimizer=own(), stop={"max_rounds": 1}))
    await hashed.result()
    name = "optimizer own_optimizers:Stepper"
    assert (await stated.query("progress"))["versions"][name] == "version:7"
    assert len((await hashed.query("progress"))["versions"][name]) == 64


async def test_one_that_raises_ends_the_run_and_is_named_with_its_method(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(optimizer=own("own_optimizers:RaisesInObserve")))
    error = await failure_of(handle)
    assert error.type == "execution_failure"
    assert "own_optimizers:RaisesInObserve failed in observe: ValueError: nothing to learn from" in error.message
    trials = await trials_of(engines, handle.id)
    assert len(trials) == 3, "what was measured stays"


async def test_a_state_that_is_too_large_is_refused_with_the_figure(engines: Engines, spec: Spec) -> None:
    error = await failure_of(await engines.start(spec(optimizer=own("own_optimizers:RemembersEverything"))))
    assert "RemembersEverything failed in observe: its state is 100," in error.message
    assert "at most 65,536 fit" in error.message


@pytest.mark.parametrize(
    ("optimizer", "told"),
    [
        (own("own_optimizers:Nobody"), "has no 'Nobody'"),
        (own("own_optimizers:LacksMethods"), "has no propose and no observe and no should_stop"),
        (own("own_optimizers:no_class"), "is a function, not a class"),
        (own(options={"sise": 3}), "optimizer.options do not fit, TypeError: got an unexpected keyword argument 'sise'"),
    ],
)
async def test_a_wrong_reference_costs_nothing(engines: Engines, spec: Spec, optimizer: dict[str, Any], told: str) -> None:
    handle = await engines.start(spec(optimizer=optimizer))
    error = await failure_of(handle)
    assert error.type == "InvalidRequest"
    assert told in error.message
    assert not await trials_of(engines, handle.id)
