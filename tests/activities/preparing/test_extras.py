"""What only some specs need: a worker without it says so before anything is paid for."""

from __future__ import annotations

import sys

import pytest
from temporalio.exceptions import ApplicationError

from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import suite
from workflows.model.failures import INVALID_REQUEST
from workflows.model.run.contract import Inspected, InspectInput
from workflows.optimizers.search import SearchOptimizer

pytestmark = pytest.mark.usefixtures("measured_runs")

SEARCH = InspectInput(references={}, search=SearchOptimizer(name="search"))


async def inspected(question: InspectInput) -> Inspected:
    async with evaluation(MeasuredRun(suite("echo"), [])) as evaluating:
        return await activity_environment().run(evaluating.inspect_plugins, question)


async def test_a_worker_without_samplers_refuses_a_search_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await inspected(SEARCH)).evaluators == {}
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ApplicationError) as raised:
        await inspected(SEARCH)
    assert (raised.value.type, raised.value.non_retryable) == (INVALID_REQUEST, True)
    assert (
        raised.value.message == "optimizer.name: search needs optuna; install ratchet-optimizer[search] where the workers run"
    )
    assert (await inspected(InspectInput(references={}))).evaluators == {}
