"""The activity that a user's optimizer runs in: a step after the other, and only with the code that the run began with."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.evaluation import OTHER_CODE
from ratchet._formats.canonical import content_hash
from ratchet.optimizer import Direction, RunContext
from store.encoding import from_json
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import plugin, suite
from workflows.model.activities.optimizer_steps import CustomStepInput, CustomStepResult, OwnOptimizer

pytestmark = pytest.mark.usefixtures("measured_runs")


def first_step(**changes: Any) -> CustomStepInput:
    context = RunContext(
        optimization_id="run",
        evaluation_suite_id="s",
        objective_name="score",
        direction=Direction.MAXIMIZE,
        baseline_candidate_id="r0",
        baseline_score=0.5,
        max_candidates_per_step=1,
    )
    optimizer = OwnOptimizer(ref=plugin("Proposes"))
    return CustomStepInput(run_id="run", optimizer=optimizer, context=context).model_copy(update=changes)


async def stepped(**changes: Any) -> CustomStepResult:
    async with evaluation(MeasuredRun(suite("echo"), [])) as evaluating:
        return await activity_environment().run(evaluating.step_optimizer, first_step(**changes))


async def test_it_begins_then_observes_then_proposes() -> None:
    first = await stepped()
    assert [proposal.configuration for proposal in first.proposals] == [{"x": 0}]
    second = await stepped(state=first.state, observed=())
    assert [proposal.configuration for proposal in second.proposals] == [{"x": 1}]


async def test_what_it_proposes_is_kept_by_the_name_that_rejections_have() -> None:
    async with evaluation(run := MeasuredRun(suite("echo"), [])) as evaluating:
        taken = await activity_environment().run(evaluating.step_optimizer, first_step())
        again = await activity_environment().run(evaluating.step_optimizer, first_step())
    [proposal] = taken.proposals
    assert taken == again
    async with run.database.connection() as connection:
        [stored] = await connection.fetch("SELECT proposed_hash, configuration FROM proposed_configurations")
    assert (stored["proposed_hash"], from_json(stored["configuration"])) == (content_hash({"x": 0}), proposal.configuration)


async def test_other_code_than_the_run_began_with_must_not_decide() -> None:
    with pytest.raises(ApplicationError, match="a worker with that code") as raised:
        await stepped(fingerprint="0" * 64)
    assert raised.value.type == OTHER_CODE
    assert not raised.value.non_retryable


async def test_a_stated_version_may() -> None:
    assert (await stepped(fingerprint="version:7")).proposals
