"""Calls that a lost worker had in flight are told, as far as anybody can know of them."""

from __future__ import annotations

import dataclasses

import pytest

from activities.flight import Flight
from tests.activities.evaluation_doubles import MemoryStore, activity_environment, evaluation, samples, shard, suite
from workflows.rules.merging import ending_of


@pytest.mark.parametrize(
    ("attempt", "heard", "lost"),
    [
        (1, (), 0),
        (2, (), 4),  # died before its first heartbeat
        (2, (3, 0), 3),
        (2, (0, 0), 0),  # failed in good order
        (3, (2, 5), 7),
        (2, (50, 0), 10),  # no more than there was to do
        (2, ("nonsense",), 4),
    ],
)
def test_what_the_last_heartbeat_said_was_in_flight_is_lost(attempt: int, heard: tuple[object, ...], lost: int) -> None:
    flight = Flight(attempt, heard)
    flight.begins(unanswered=10, side_by_side=4, count=lambda: 6)
    assert flight.lost == lost
    assert flight.told() == (6, lost)


async def test_a_shard_that_is_taken_over_tells_what_its_worker_lost() -> None:
    store = MemoryStore(suite("echo"), samples(5))
    environment = activity_environment(attempt=2)
    environment.info = dataclasses.replace(environment.info, heartbeat_details=[2, 1])
    async with evaluation(store) as evaluating:
        result = await environment.run(evaluating.evaluate_shard, shard(5))
    assert (result.evaluated, result.lost) == (5, 3)
    assert ending_of([result])["lost"] == 3
