"""Bare engines do the work of a run, no more and no less of it: else what is told as a ratio to them would mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from benchmarks.bare_engines import PARAMETER_BYTES, Shape, bare_engines, with_sizes_of
from benchmarks.overhead import children_of, events_of, last_child, seconds_of_rounds
from tests.support.engines import Engines

SAMPLES, ROUNDS = 8, 2


def kinds(events: Sequence[HistoryEvent]) -> list[str]:
    return [EventType.Name(event.event_type) for event in events]


def one_round(events: Sequence[HistoryEvent]) -> list[str]:
    """What the parent's history has from one child to the next; search attributes are what a run says beside it."""
    starts = [number for number, kind in enumerate(kinds(events)) if "START_CHILD" in kind and "INITIATED" in kind]
    return [kind for kind in kinds(events[starts[1] : starts[2]]) if "SEARCH_ATTRIBUTES" not in kind]


async def sizes(client: Client, workflow_id: str) -> Shape:
    run = await events_of(client, workflow_id)
    return with_sizes_of(Shape(ROUNDS, samples=SAMPLES), run, await events_of(client, last_child(run)))


@pytest.mark.slow
async def test_bare_engines_leave_events_and_payloads_of_a_run(engines: Engines, spec: Callable[..., dict[str, Any]]) -> None:
    asked = spec(stop={"max_rounds": ROUNDS, "no_improvement": 0})
    await engines.run(asked, run_id="yardstick")
    ours = await events_of(engines.client, "yardstick")
    shape = await sizes(engines.client, "yardstick")
    async with bare_engines(engines.addresses.temporal_address, engines.addresses.database_url) as bare:
        its = await events_of(bare.client, await bare.run(shape))
        assert children_of(its) == children_of(ours) == shape.trials
        assert one_round(its) == one_round(ours)
        assert kinds(await events_of(bare.client, last_child(its))) == kinds(await events_of(engines.client, last_child(ours)))
        assert seconds_of_rounds(its) > 0
        measured = with_sizes_of(shape, its, await events_of(bare.client, last_child(its)))
    for name in ("first_start", "trial_result", "shard", "shard_result"):
        assert getattr(measured, name) == pytest.approx(getattr(shape, name), abs=PARAMETER_BYTES / 4), name


@pytest.mark.slow
async def test_bare_engines_store_every_answer_and_keep_to_their_places(engines: Engines) -> None:
    shape = Shape(rounds=1, samples=160, concurrent=16, seconds=0.001)
    async with bare_engines(engines.addresses.temporal_address, engines.addresses.database_url) as bare:
        await bare.run(shape, "bare-waiting")
        await bare.run(Shape(rounds=1, samples=20), "bare-instant")
        async with engines.database.connection() as connection:
            stored = await connection.fetch(
                "SELECT split_part(trial, '/', 1) AS run, count(*), count(DISTINCT position) FROM bare.answers"
                " GROUP BY trial ORDER BY trial"
            )
            ended = await connection.fetchval("SELECT count(*) FROM bare.trials WHERE length(ended) = $1", shape.trial_result)
    assert [tuple(row) for row in stored] == [("bare-instant", 20, 20)] * 2 + [("bare-waiting", 160, 160)] * 2
    assert ended == 4
