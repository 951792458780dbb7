"""Budgets of runs whose samples others answer: activities of any worker, and external runners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.activity_targets import Call, height, theirs
from tests.support.engines import Engines
from tests.support.external_runners import running
from tests.support.hill_specs import ENDLESS
from tests.support.run_views import rows

Spec = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("stated", [{"at_most": {"cost": 0.001, "tokens": 10}}, {}], ids=["stated", "learned"])
@pytest.mark.parametrize("batch", [1, 3])
async def test_an_activity_is_called_as_far_as_the_budget_goes(
    batch: int, stated: dict[str, Any], engines: Engines, spec: Spec
) -> None:
    made = 0

    def answer(call: Call) -> Any:
        nonlocal made
        made += len(call.get("samples", [None]))
        return [height(call) for _ in call["samples"]] if batch > 1 else height(call)

    async with theirs(engines, answer) as target:
        dearer = {"scorers": spec()["scorers"], "replicates": 2, "stop": ENDLESS}
        result = await engines.run(spec(target={**target, **stated, "batch": batch}, budget={"cost": 0.045}, **dearer))
    assert result["stop_reason"] == "cost_budget"
    assert made == result["spend"]["samples"] <= 45
    assert made > 30
    [account] = await rows(engines, "SELECT * FROM budgets", result["optimization_id"])
    assert account["spent_cost"] == pytest.approx(made * 0.001)
    assert account["lost_samples"] == account["exceeded"] == 0
    assert await rows(engines, "SELECT * FROM budget_leases", result["optimization_id"]) == []


async def test_attempts_that_fail_count_because_they_may_have_been_paid(engines: Engines, spec: Spec) -> None:
    made: dict[str, int] = {}

    def answer(call: Call) -> Any:
        name = call["sample"]["id"] + str(call["sample"]["replicate"]) + str(call["configuration"]["x"])
        made[name] = made.get(name, 0) + 1
        if made[name] == 1 and call["sample"]["input"] % 2:
            raise ConnectionError("broke off half-way")
        return height(call)

    async with theirs(engines, answer) as target:
        stated = {**target, "at_most": {"cost": 0.001}}
        result = await engines.run(spec(target=stated, budget={"samples": 30, "cost": 1}, stop=ENDLESS))
    calls = sum(made.values())
    assert result["stop_reason"] == "sample_budget"
    assert calls <= 30
    [account] = await rows(engines, "SELECT * FROM budgets", result["optimization_id"])
    assert account["spent_samples"] + account["lost_samples"] == calls
    assert result["lost"]["samples"] == account["lost_samples"] == sum(1 for times in made.values() if times > 1)


async def test_an_experiment_that_the_budget_does_not_cover_is_not_begun(engines: Engines, spec: Spec) -> None:
    async with running(engines) as (runner, target):
        stated = {**target, "at_most": {"cost": 0.002}}
        result = await engines.run(spec(target=stated, budget={"cost": 0.03}, stop=ENDLESS))
    assert result["stop_reason"] == "cost_budget"
    # 8 samples: each experiment takes 0.008, and needs 0.016 to be left before it begins.
    assert len(runner.experiments) == result["counts"]["completed"] == 2
    assert result["spend"]["cost"] == pytest.approx(0.016)
    [account] = await rows(engines, "SELECT * FROM budgets", result["optimization_id"])
    assert account["spent_cost"] == pytest.approx(0.016)
    assert account["lost_samples"] == 0
