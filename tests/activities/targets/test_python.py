"""What Python targets may return, and those that ask for patience with an endpoint of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from activities.targets.answers import output_from
from activities.targets.faults import CandidateFault, Throttled
from activities.targets.patience_requests import LONGEST_AFTER_SECONDS, TRY_AGAIN, patience_asked_for
from ratchet import TryAgain
from tests.support import evaluation_plugins
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import QUICK, MeasuredRun, evaluation
from tests.support.suite_building import plugin, samples, shard, suite
from workflows.model.spec.targets.python import PythonTarget
from workflows.model.trial import ShardResult


@pytest.fixture(autouse=True)
def called(measured_runs: None) -> list[str]:
    evaluation_plugins.calls.clear()
    return evaluation_plugins.calls


def pooled(name: str) -> PythonTarget:
    return PythonTarget.model_validate({"kind": "python", "ref": plugin(name), "pool": "process", "processes": 1})


async def evaluated(
    target: PythonTarget | str, *, count: int = 1, attempt: int = 1, **asks: Any
) -> tuple[MeasuredRun, ShardResult]:
    run = MeasuredRun(suite(target), samples(count, **asks))
    async with evaluation(run) as evaluating:
        return run, await activity_environment().run(evaluating.evaluate_shard, shard(count))


@pytest.mark.parametrize("value", ["x", 7, 0.5, True, [1, {"a": None}], {"a": 1}, np.int64(7), {"a": np.float32(0.5)}])
def test_whatever_json_can_say_is_an_answer(value: Any) -> None:
    assert output_from(value).value == value


@pytest.mark.parametrize("value", [None, math.nan, {"a"}, b"x", object()])
def test_what_json_cannot_say_is_the_targets_fault(value: Any) -> None:
    with pytest.raises(CandidateFault):
        output_from(value)


@pytest.mark.parametrize("target", ["impatient", "impatient_async", pooled("impatient")])
async def test_it_is_called_again_until_it_answers(target: PythonTarget | str) -> None:
    run, result = await evaluated(target, count=3, busy=2)
    assert (result.evaluated, result.missing, result.errors) == (3, 0, {})
    assert {outcome.status for outcome in (await run.by_sample()).values()} == {"answered"}


async def test_it_is_called_as_often_as_a_model_and_what_stays_is_no_answer(called: list[str]) -> None:
    run, result = await evaluated("impatient", busy=1_000)
    assert len(called) == QUICK.attempts
    assert (result.evaluated, result.missing, result.errors) == (0, 1, {TRY_AGAIN: 1})
    assert result.first_error == "sample s0: the target asks to try again: the shop is busy"
    assert await run.by_sample() == {}


async def test_one_that_says_how_long_to_wait_is_called_as_often_as_time_allows(called: list[str]) -> None:
    _, result = await evaluated("impatient", busy=QUICK.attempts + 2, told={"after": 0.01})
    assert (result.evaluated, result.missing) == (1, 0)
    assert len(called) == QUICK.attempts + 3


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"billed": "no"}, ("no", 0, 0.0)),
        ({"billed": "yes", "tokens": 12, "cost": 0.5}, ("yes", 12, 0.5)),
        ({}, ("unknown", 0, 0.0)),
        ({"billed": "perhaps", "tokens": "many", "cost": math.nan}, ("unknown", 0, 0.0)),
    ],
)
def test_what_it_took_is_told_and_nonsense_is_not_believed(told: dict[str, Any], expected: tuple[str, int, float]) -> None:
    fault = patience_asked_for("busy", vars(TryAgain("busy", **told)))
    assert (fault.billed, fault.tokens, fault.cost) == expected


@pytest.mark.parametrize(
    ("after", "expected"), [(2, 2.0), (1e9, LONGEST_AFTER_SECONDS), (-1, None), (math.inf, None), ("soon", None), (None, None)]
)
def test_how_long_to_wait_is_bounded(after: Any, expected: float | None) -> None:
    fault = patience_asked_for("busy", vars(TryAgain(after=after)))
    assert (fault.retry_after if isinstance(fault, Throttled) else None) == expected
