"""The activity that asks a stop policy of the user's, in the worker and in a process of its own."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from activities.plugins.isolation import Isolation
from activities.plugins.loader import Plugins
from ratchet.optimizer import Direction, StopFacts
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import plugin, suite
from workflows.model.activities.stop_policies import PolicyInput
from workflows.model.failures import INVALID_REQUEST, STOP_POLICY_FAILED
from workflows.model.run.contract import InspectInput

pytestmark = pytest.mark.usefixtures("measured_runs")

FACTS = StopFacts(
    round=0,
    direction=Direction.MAXIMIZE,
    baseline_score=0.5,
    best_score=0.5,
    best_candidate_id="r0",
    improved_round=0,
    elapsed_seconds=1.0,
    trials=1,
    samples=1,
    tokens=0,
    cost=0.0,
)


async def asked(policy: str, number: int = 1, fingerprint: str = "") -> str | None:
    facts = FACTS.model_copy(update={"round": number})
    async with evaluation(MeasuredRun(suite("echo"), [])) as evaluating:
        asking = PolicyInput(run_id="run", ref=plugin(policy), fingerprint=fingerprint, facts=facts)
        return (await activity_environment().run(evaluating.ask_stop_policy, asking)).words


async def test_it_says_why_or_that_the_run_goes_on() -> None:
    assert await asked("stops_at_once", 0) is None
    assert await asked("stops_at_once") == "seen 0"


@pytest.mark.parametrize(
    ("policy", "said", "final"),
    [
        ("stops_by_raising", "raised LookupError: no idea", False),
        ("stops_with_a_flag", "returned a bool; return why the run ends as text, or None", True),
    ],
)
async def test_one_that_cannot_be_used_is_named(policy: str, said: str, final: bool) -> None:
    with pytest.raises(ApplicationError, match=said) as raised:
        await asked(policy)
    assert (raised.value.type, raised.value.non_retryable) == (STOP_POLICY_FAILED, final)
    assert plugin(policy) in raised.value.message


async def test_other_code_than_the_run_began_with_must_not_decide() -> None:
    with pytest.raises(ApplicationError, match="a worker with that code"):
        await asked("stops_at_once", fingerprint="0" * 64)


async def test_in_a_process_of_its_own_it_says_the_same() -> None:
    plugins, facts = Plugins(["tests"]), FACTS.model_copy(update={"round": 1}).model_dump(mode="json")
    for policy, told in (("stops_at_once", {"words": "seen 0"}), ("stops_with_a_flag", {"type": "bool"})):
        assert await Isolation().call(plugins, plugin(policy), "policy", {"facts": facts}) == told


async def test_a_description_that_is_none_is_refused_before_anything_is_spent() -> None:
    ref = plugin("described_by_a_number")
    async with evaluation(MeasuredRun(suite("echo"), [])) as evaluating:
        with pytest.raises(ApplicationError, match=r"description\(\) returned 7; return a few words") as raised:
            await activity_environment().run(
                evaluating.inspect_plugins, InspectInput(references={ref: None}, describable=(ref,))
            )
    assert raised.value.type == INVALID_REQUEST
