"""Prompts move from every backend to every other with all they ever were, and a migration may be interrupted anywhere."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from ratchet.prompts import OverrideStore, PromptError, TagState, migrate, open_store
from tests.support.prompt_examples import NAME, moved, template, toned
from tests.support.prompt_places import BACKENDS, SERVED, Place, place_of_kind

OTHER = "sales/answer"


async def filled(store: OverrideStore) -> None:
    """Two prompts: a canary that was promoted, a rollback, a deleted tag, a temporary one, a version made on another tag."""
    await store.seed(template())
    await moved(store, "Second.", None, tag="canary", version="1.1.0", change={"by": "mia", "evidence": {"run": "r-1"}})
    await store.copy_tag(NAME, source="canary", tag="stable", expected=1)
    await store.copy_tag(NAME, source="1.0.0", tag="stable", expected=2)
    await moved(store, "Third.", None, tag="aside")
    await store.delete(NAME, tag="aside", expected=1)
    await moved(store, "Tried.", None, tag="opt-1", temporary=True, owner="run-1")
    await store.seed(template(OTHER))
    await store.store(template(OTHER), toned("Other.", template(OTHER)), tag="stable", expected=1, version="1.0.1")


async def all_of(store: OverrideStore) -> dict[str, tuple[list[TagState], list[list[TagState]], list[str]]]:
    found = {}
    for name in await store.names():
        histories = [await store.history(name, tag) for tag in ("aside", "canary", "opt-1", "stable")]
        found[name] = (await store.versions(name), histories, sorted(await store.backend.templates(name)))
    return found


@pytest.fixture(
    params=[pytest.param(pair, marks=[pytest.mark.slow] * bool({*pair} & {*SERVED})) for pair in permutations(BACKENDS, 2)],
    ids="-".join,
)
def places(request: pytest.FixtureRequest) -> tuple[Place, Place]:
    kind, other = request.param
    return place_of_kind(kind, request), place_of_kind(other, request)


async def test_prompts_move_whole_and_moving_them_again_changes_nothing(places: tuple[Place, Place]) -> None:
    async with await places[0].open() as source, await places[1].open() as destination:
        await filled(source)
        told: list[str] = []

        result = await migrate(source, destination, told=lambda name, _: told.append(name))

        assert (result.prompts, result.templates, result.changes) == (2, 2, 8)
        assert told == [OTHER, NAME]
        await source.delete(NAME, tag="opt-1", expected=1)
        assert await all_of(destination) == await all_of(source)
        assert (await destination.resolve(NAME, tag="1.1.0")).configuration["section:rules/tone"] == "Second."
        again = await migrate(source, destination)
        assert (again.prompts, again.templates, again.changes) == (0, 0, 0)
        await moved(source, "Later.", 3)
        assert (await migrate(source, destination)).changes == 1
        assert await destination.current(NAME, "stable") == await source.current(NAME, "stable")


async def test_a_migration_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    async with await open_store(f"file:{tmp_path / 'from'}") as source:
        await filled(source)
        await source.delete(NAME, tag="opt-1", expected=1)
        for after in range(8):
            async with await open_store(f"file:{tmp_path / f'to-{after}'}") as destination:
                swap, left = destination.backend.swap, [after]

                async def interrupted(state: TagState, left: list[int] = left, swap: object = swap) -> bool:
                    if left[0] == 0:
                        raise KeyboardInterrupt
                    left[0] -= 1
                    assert callable(swap)
                    return bool(await swap(state))

                destination.backend.swap = interrupted  # type: ignore[method-assign]
                with pytest.raises(KeyboardInterrupt):
                    await migrate(source, destination)
            async with await open_store(f"file:{tmp_path / f'to-{after}'}") as destination:
                assert (await migrate(source, destination)).changes == 8 - after
                assert await all_of(destination) == await all_of(source)


async def test_a_tag_that_went_its_own_way_is_left_alone(tmp_path: Path) -> None:
    async with await open_store(f"file:{tmp_path / 'a'}") as source, await open_store(f"file:{tmp_path / 'b'}") as destination:
        await source.seed(template())
        await destination.seed(template())
        own = await moved(destination, "Its own.", 1)

        with pytest.raises(PromptError, match="has another history in the destination"):
            await migrate(source, destination)
        assert await destination.current(NAME, "stable") == own
