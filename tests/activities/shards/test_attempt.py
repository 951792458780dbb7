"""Before a call begins it is certain that its attempt still counts; a machine that slept asks first."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.budget.metering import NoMoreCalls
from activities.shards.attempt import Attempt, CallsEnd
from tests.support.activity_attempts import activity_environment
from tests.support.engines import Engines
from workflows.model.trial import TrialResult

TIMEOUT = timedelta(seconds=8)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def environment(engines: Engines) -> ActivityEnvironment:
    """An activity whose server has given it to somebody else: it does not know the task any more."""
    found = ActivityEnvironment(client=engines.client)
    token = b"\n\x24" + b"0" * 36  # names no task of any workflow
    found.info = dataclasses.replace(found.info, heartbeat_timeout=TIMEOUT, task_token=token)
    return found


async def test_nothing_begins_for_an_attempt_that_was_given_to_somebody_else(engines: Engines) -> None:
    clock = Clock()

    async def stands_still() -> None:
        attempt = Attempt(clock=clock)
        clock.now += 60
        attempt.ticked()  # the ticker may come first when the process goes on
        with pytest.raises(NoMoreCalls):
            await attempt.permit()
        assert attempt.is_over

    await environment(engines).run(stands_still)


async def test_an_attempt_that_ticks_asks_nobody() -> None:
    clock = Clock()

    async def ticks() -> None:
        attempt = Attempt(clock=clock)
        for _ in range(100):
            clock.now += 2.7
            attempt.ticked()
            await attempt.permit()  # there is no server here that could be asked

    await activity_environment(heartbeat_timeout=TIMEOUT).run(ticks)


async def test_nothing_begins_on_a_worker_whose_stack_goes_down() -> None:
    end = CallsEnd()

    async def cut_off() -> None:
        attempt = Attempt(end)
        await attempt.permit()
        end.set()
        with pytest.raises(NoMoreCalls):
            await attempt.permit()

    await activity_environment(heartbeat_timeout=TIMEOUT).run(cut_off)


@pytest.mark.parametrize(("metered", "lost"), [(False, 19), (True, 3)])
def test_what_a_race_lost_stays_lost_when_its_winner_is_measured_in_full(metered: bool, lost: int) -> None:
    common = {"optimization_id": "run", "candidate_id": "c", "mask_id": "m", "experiment_id": "e", "status": "completed"}
    race = TrialResult.model_validate({**common, "lost_samples": 16})
    whole = TrialResult.model_validate({**common, "lost_samples": 3, "metered": metered})
    assert whole.after_its_race(race).lost_samples == lost
