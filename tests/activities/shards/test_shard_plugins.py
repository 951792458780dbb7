"""Plug-ins of a shard: those that kill their process, and those that are not what the run began with."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError

from activities.evaluation import OTHER_CODE
from tests.support import evaluation_plugins
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import plugin, samples, scored_by, shard, suite
from workflows.model.failures import INVALID_REQUEST
from workflows.model.spec.targets.python import PythonTarget

pytestmark = pytest.mark.usefixtures("measured_runs")


class TestPluginsThatKillTheirProcess:
    async def test_from_the_third_attempt_on_they_die_alone(self) -> None:
        deaths = [("exit", "exit code 7"), ("segfault", "SIGSEGV"), ("raise", "target raised ValueError: no such ticket")]
        dying = [sample for n, (die, _) in enumerate(deaths) for sample in samples(n + 1, die=die)[n:]]
        run = MeasuredRun(suite("deadly"), [*dying, *samples(5, die="print")[3:]])
        async with evaluation(run) as evaluating:
            result = await activity_environment(attempt=3).run(evaluating.evaluate_shard, shard(5))
        assert result.evaluated == 5
        outcomes = await run.by_sample()
        for number, (_, text) in enumerate(deaths):
            assert text in (outcomes[f"s{number}"].error or "")
        assert "target killed its process" in (outcomes["s0"].error or "")
        assert outcomes["s3"].passed
        assert outcomes["s4"].passed

    async def test_a_deadly_scorer_fails_the_scoring(self) -> None:
        run = MeasuredRun(suite("echo", scorers=scored_by("deadly_score")), samples(1))
        async with evaluation(run) as evaluating:
            result = await activity_environment(attempt=3).run(evaluating.evaluate_shard, shard(1))
        assert result.scoring_error == "sample s0: scorer 'python': scorer killed its process (exit code 9)"

    async def test_scores_come_back_from_their_own_process_as_they_are(self) -> None:
        run = MeasuredRun(suite("echo", scorers=scored_by("detailed"), metric="tone"), samples(1))
        async with evaluation(run) as evaluating:
            await activity_environment(attempt=3).run(evaluating.evaluate_shard, shard(1))
        assert (await run.by_sample())["s0"].scores == {"tone": 0.9, "facts": 0.2}

    async def test_one_that_hangs_is_killed(self) -> None:
        run = MeasuredRun(suite("deadly", sample_timeout=timedelta(seconds=0.3)), samples(1, die="hang"))
        async with evaluation(run) as evaluating:
            await activity_environment(attempt=3).run(evaluating.evaluate_shard, shard(1))
        assert (await run.by_sample())["s0"].error == "took longer than the sample timeout of 0.3 s"


class TestPluginIdentity:
    async def test_other_code_than_the_run_began_with_must_not_answer(self) -> None:
        run = MeasuredRun(suite("echo", plugins={plugin("echo"): "0" * 64}), samples(1))
        async with evaluation(run) as evaluating:
            with pytest.raises(ApplicationError, match="a worker with that code") as raised:
                await activity_environment().run(evaluating.evaluate_shard, shard(1))
        assert raised.value.type == OTHER_CODE
        assert not raised.value.non_retryable
        assert evaluation_plugins.calls == []

    async def test_the_same_code_and_a_stated_version_may(self) -> None:
        async with evaluation(MeasuredRun(suite("echo"), [])) as evaluating:
            from workflows.model.run.contract import InspectInput

            references = {plugin("echo"): None, plugin("half"): "v2"}
            inspected = await activity_environment().run(evaluating.inspect_plugins, InspectInput(references=references))
        assert inspected.evaluators[plugin("half")] == "version:v2"
        run = MeasuredRun(suite("echo", scorers=scored_by("half"), plugins=inspected.evaluators), samples(1))
        async with evaluation(run) as evaluating:
            result = await activity_environment().run(evaluating.evaluate_shard, shard(1))
        assert result.evaluated == 1

    async def test_a_plugin_that_cannot_be_used_fails_for_good_and_says_how_to_fix_it(self) -> None:
        target = PythonTarget(kind="python", ref=plugin("too_few_parameters"))
        run = MeasuredRun(suite(target), samples(1))
        async with evaluation(run) as evaluating:
            with pytest.raises(ApplicationError, match="called with 3 positional arguments") as raised:
                await activity_environment().run(evaluating.evaluate_shard, shard(1))
        assert (raised.value.type, raised.value.non_retryable) == (INVALID_REQUEST, True)
