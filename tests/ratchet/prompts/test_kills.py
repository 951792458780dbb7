"""kill -9 in the middle of every step of every write, on every backend: the old state or the new one, never half of one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.prompts import Overrides, OverrideStore, TagState
from tests.support.dying_writer import ACTIONS, CHANGES
from tests.support.prompt_examples import template, toned
from tests.support.prompt_places import Place

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

FEWEST_STEPS = {"file": 10, "postgres": 3, "s3": 3, "redis": 1}
"""So many steps a write has at least; a count below it means that the steps were not seen."""


@dataclass(frozen=True)
class Mortal:
    """The process whose children die."""

    process: asyncio.subprocess.Process
    url: str

    async def dies_at(self, step: int, action: str, name: str) -> bool:
        """Whether it died there, or came to the end before."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{self.url} {step} {action} {name}\n".encode())
        outcome = int(await self.process.stdout.readline())
        assert outcome in (signal.SIGKILL, 0)
        return outcome == signal.SIGKILL


@pytest.fixture
async def mortal(place: Place) -> AsyncIterator[Mortal]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.dying_writer"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **place.environment},
    )
    yield Mortal(process, place.url)
    process.kill()
    await process.wait()


@pytest.mark.parametrize("action", CHANGES)
async def test_a_write_that_is_killed_leaves_the_old_state_or_the_new_one(
    place: Place, store: OverrideStore, mortal: Mortal, action: str
) -> None:
    step, new_states = 0, 0
    while True:
        step += 1
        name = f"kills/{action}-{step}"
        if action != "seed":
            await store.seed(template(name))

        died = await mortal.dies_at(step, action, name)

        new_states += await is_new_and_whole(store, name, action)
        # Whoever asks again gets what was asked for, once.
        await ACTIONS[action](store, name)
        assert await is_new_and_whole(store, name, action)
        await it_goes_on(store, name, action)
        if not died:
            break
    assert new_states >= 1
    assert step > FEWEST_STEPS[place.kind]


async def is_new_and_whole(store: OverrideStore, name: str, action: str) -> bool:
    """Whether the change happened; everything about it, or nothing."""
    history = await store.history(name, "stable")
    versions = [state.version for state in await store.versions(name)]
    current = await store.current(name, "stable")
    happened = bool(history) and history[-1].change.id == "dying"
    old: list[TagState] = history[:-1] if happened else history
    assert [state.revision for state in history] == list(range(1, len(history) + 1))
    assert [state.change.action for state in old] == ([] if action == "seed" else ["seed"])
    assert current == (None if action == "delete" and happened else history[-1] if history else None)
    assert versions == (["1.0.0"] if history else []) + (["1.0.1"] if action == "move" and happened else [])
    assert [state.tag for state in await store.list_tags(name)] == ([] if current is None else ["stable"])
    if current is not None:
        assert (await store.resolve(name, tag="stable")).state == current
    return happened


async def it_goes_on(store: OverrideStore, name: str, action: str) -> None:
    """What the dead left behind is in nobody's way."""
    current = await store.current(name, "stable")
    of = template(name)
    expected = None if current is None else current.revision
    made = await store.store(of, toned("Go on.", of), tag="stable", expected=expected, version="1.0.2")
    assert (await store.resolve(name, tag="1.0.2")).state == made


async def test_a_dead_writers_version_is_free_again_when_another_change_came_first(
    place: Place, store: OverrideStore, mortal: Mortal
) -> None:
    for step in range(1, 100):
        name = f"kills/claims-{step}"
        await store.seed(template(name))
        if not await mortal.dies_at(step, "move", name):
            return
        if len(await store.history(name, "stable")) == 1:
            of = template(name)
            made = await store.store(of, toned("Another.", of), tag="stable", expected=1, version="1.0.1")
            assert (await store.resolve(name, tag="1.0.1")).state == made
            assert (await store.resolve(name, tag="1.0.1")).configuration["section:rules/tone"] == "Another."


async def test_a_temporary_tag_whose_removal_is_killed_is_there_or_gone(store: OverrideStore, mortal: Mortal) -> None:
    for step in range(1, 100):
        name = f"kills/purge-{step}"
        of = template(name)
        await store.store(of, toned("Tried.", of), tag="opt-1", expected=None, temporary=True, owner="run-1")
        died = await mortal.dies_at(step, "purge", name)

        there = await store.history(name, "opt-1")
        assert [state.tag for state in await store.list_tags(name)] == [state.tag for state in there]
        if there:
            assert (await store.resolve(name, tag="opt-1")).configuration["section:rules/tone"] == "Tried."
        await store.delete(name, tag="opt-1", expected=1)
        assert await store.history(name, "opt-1") == []
        if not died:
            assert not there
            return


@pytest.mark.parametrize("place", ["file"], indirect=True)
async def test_what_is_left_of_a_dead_writer_is_swept_up(place: Place, store: OverrideStore, mortal: Mortal) -> None:
    folder = Path(place.url.removeprefix("file:"))
    left_behind = 0
    for step in range(1, 40):
        name = f"kills/sweep-{step}"
        await store.seed(template(name))
        if not await mortal.dies_at(step, "move", name):
            break
        left_behind += len(list(folder.rglob(".unfinished-*")))
        await ACTIONS["move"](store, name)
        await store.store(template(name), Overrides(), tag="stable", expected=2)
        assert list((folder / name).glob(".unfinished-*")) == []
    assert left_behind > 0
