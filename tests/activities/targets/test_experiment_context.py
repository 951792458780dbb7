"""Whatever way a target is called, it and everything it calls run under the experiment that it is given as an argument."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet import current_experiment
from ratchet._formats.canonical import content_hash
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import CONFIG_HASH, plugin, samples, scored_by, shard, suite
from workflows.model.spec.targets.python import PythonTarget
from workflows.model.suite import Outcome

pytestmark = pytest.mark.usefixtures("measured_runs")

FLAGS = {"new_parser": True, "region": "north"}
BASELINE, CANDIDATE = content_hash({"a": 0}), CONFIG_HASH


async def outcomes_of(target: PythonTarget, attempt: int = 1, **more: Any) -> list[Outcome]:
    run = MeasuredRun(suite(target, flags=FLAGS, baseline_hash=BASELINE, **more), samples(4))
    async with evaluation(run) as evaluating:
        await activity_environment(attempt=attempt).run(evaluating.evaluate_shard, shard(8, replicates=2))
    return list((await run.outcomes()).values())


@pytest.mark.parametrize(
    ("name", "attempt", "pool"),
    [
        ("tells_its_experiment", 1, "thread"),
        ("tells_its_experiment_async", 1, "thread"),
        ("returns_an_awaitable", 1, "thread"),
        ("tells_its_experiment", 1, "process"),
        ("tells_its_experiment_async", 1, "process"),
        ("tells_its_experiment", 3, "thread"),
        ("tells_its_experiment_async", 3, "thread"),
    ],
)
async def test_argument_and_context_variable_are_the_same_experiment(name: str, attempt: int, pool: str) -> None:
    target = PythonTarget.model_validate({"kind": "python", "ref": plugin(name), "pool": pool})
    outcomes = await outcomes_of(target, attempt)
    assert len(outcomes) == 8
    for outcome in outcomes:
        assert outcome.output["seen"] == [outcome.output["given"]] * len(outcome.output["seen"]), outcome.error
        assert outcome.output["given"]["replicate"] == outcome.replicate
        assert outcome.output["given"]["flags"] == FLAGS
    assert current_experiment() is None


async def test_a_candidate_names_its_parent_and_the_baseline_has_none() -> None:
    target = PythonTarget(kind="python", ref=plugin("tells_its_experiment"))
    [candidate, *_] = await outcomes_of(target)
    assert (candidate.output["given"]["overrides_tag"], candidate.output["given"]["parent_tag"]) == (CANDIDATE, BASELINE)
    run = MeasuredRun(suite(target, baseline_hash=BASELINE), samples(1), {"a": 0})
    async with evaluation(run) as evaluating:
        await activity_environment().run(evaluating.evaluate_shard, run.shard(1))
    assert (await run.by_sample())["s0"].output["given"]["parent_tag"] is None


@pytest.mark.parametrize(("experiment", "name"), [(None, "run"), ("autumn", "autumn")])
async def test_an_experiment_is_called_what_the_spec_says(experiment: str | None, name: str) -> None:
    target = PythonTarget(kind="python", ref=plugin("tells_its_experiment"))
    assert (await outcomes_of(target, experiment=experiment))[0].output["given"]["name"] == name


async def test_scorers_run_under_no_experiment() -> None:
    target = PythonTarget(kind="python", ref=plugin("tells_its_experiment"))
    outcomes = await outcomes_of(target, scorers=scored_by("is_in_production"))
    assert {score for outcome in outcomes for score in outcome.scores.values()} == {1.0}
