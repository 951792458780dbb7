"""Fifty writers on one tag, on every backend, in one process and in several: nothing lost, nothing torn, one winner a swap."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from contextlib import AsyncExitStack

import pytest

from ratchet.prompts import OverrideStore, StaleBase
from tests.support.prompt_examples import NAME, moved, template
from tests.support.prompt_places import Place
from tests.support.prompt_writers import NAME as CROWD
from tests.support.prompt_writers import flags, raise_flag

WRITERS = 50
PROCESSES = 5

pytestmark = pytest.mark.timeout(300)


async def test_of_fifty_that_saw_the_same_state_one_wins(place: Place) -> None:
    async with AsyncExitStack() as exits:
        stores = [await exits.enter_async_context(await place.open()) for _ in range(PROCESSES)]
        await stores[0].seed(template())

        outcomes = await asyncio.gather(
            *(moved(stores[number % PROCESSES], f"Writer {number}.", 1) for number in range(WRITERS)), return_exceptions=True
        )

        won = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        assert len(won) == 1
        assert [type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)] == [StaleBase] * (WRITERS - 1)
        assert await stores[1].current(NAME, "stable") == won[0]
        assert [state.revision for state in await stores[2].history(NAME, "stable")] == [1, 2]


async def test_of_fifty_that_create_a_tag_one_does(place: Place) -> None:
    async with AsyncExitStack() as exits:
        stores = [await exits.enter_async_context(await place.open()) for _ in range(PROCESSES)]
        outcomes = await asyncio.gather(
            *(moved(stores[number % PROCESSES], f"Writer {number}.", None) for number in range(WRITERS)), return_exceptions=True
        )
        assert len([outcome for outcome in outcomes if not isinstance(outcome, BaseException)]) == 1
        assert len(await stores[0].history(NAME, "stable")) == 1


async def test_no_update_is_lost_and_no_read_is_torn(place: Place) -> None:
    async with AsyncExitStack() as exits:
        stores = [await exits.enter_async_context(await place.open()) for _ in range(PROCESSES)]
        await stores[0].seed(flags(WRITERS))
        writing = True

        async def read(store: OverrideStore) -> list[int]:
            """Revisions as they were seen; `resolve` itself refuses what is not whole."""
            seen = []
            while writing:
                seen.append((await store.resolve(CROWD, tag="stable")).state.revision)
                await asyncio.sleep(0.001)
            return seen

        readers = [asyncio.create_task(read(store)) for store in stores[:2]]
        await asyncio.gather(*(raise_flag(stores[number % PROCESSES], number) for number in range(WRITERS)))
        writing = False
        for reader in readers:
            seen = await reader
            assert seen == sorted(seen)

        await assert_every_flag_is_up(stores[0])


async def test_no_update_is_lost_between_processes(place: Place) -> None:
    async with await place.open() as store:
        await store.seed(flags(WRITERS))
        shares = [[str(number) for number in range(start, WRITERS, PROCESSES)] for start in range(PROCESSES)]
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.prompt_writers", place.url, *share),
                env={**os.environ, **place.environment},
            )
            for share in shares
        ]
        assert [await process.wait() for process in processes] == [0] * PROCESSES

        await assert_every_flag_is_up(store)


async def assert_every_flag_is_up(store: OverrideStore) -> None:
    resolved = await store.resolve(CROWD, tag="stable")
    assert [name for name, up in resolved.configuration.items() if up is False] == []
    history = await store.history(CROWD, "stable")
    assert [state.revision for state in history] == list(range(1, WRITERS + 2))
    assert {state.change.by for state in history[1:]} == {f"writer {number}" for number in range(WRITERS)}
    for before, after in itertools.pairwise(history):
        assert set(before.overrides.parameters) < set(after.overrides.parameters)
