"""Who asks the same at once looks once, and nobody is shown what was there before he asked."""

from __future__ import annotations

import asyncio

import pytest

from clients.http.shared_looks import SharedLooks


class Slow:
    """A look that ends when it is told to, and says how often it was taken."""

    def __init__(self) -> None:
        self.now = 0
        self.taken = 0
        self.goes_on = asyncio.Event()

    async def look(self) -> bytes:
        self.taken += 1
        seen = self.now
        await self.goes_on.wait()
        return b"%d" % seen


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_thousand_who_ask_while_one_looks_share_the_look_that_begins_then() -> None:
    looks, slow = SharedLooks(), Slow()
    first = asyncio.create_task(looks.answer("page", slow.look))
    await settle()
    slow.now = 1
    rest = [asyncio.create_task(looks.answer("page", slow.look)) for _ in range(1000)]
    await settle()
    slow.goes_on.set()
    assert await first == b"0"
    assert set(await asyncio.gather(*rest)) == {b"1"}
    assert slow.taken == 2


async def test_other_questions_wait_for_nobody_and_nothing_is_kept() -> None:
    looks, slow, other = SharedLooks(), Slow(), Slow()
    other.goes_on.set()
    waiting = asyncio.create_task(looks.answer("page", slow.look))
    await settle()
    assert await looks.answer("another", other.look) == b"0"
    slow.goes_on.set()
    await waiting
    slow.now = 2
    assert await looks.answer("page", slow.look) == b"2"
    assert slow.taken == 2


async def test_who_goes_away_takes_the_answer_from_nobody() -> None:
    looks, slow = SharedLooks(), Slow()
    gone, stays = (asyncio.create_task(looks.answer("page", slow.look)) for _ in range(2))
    await settle()
    gone.cancel()
    slow.goes_on.set()
    assert await stays == b"0"
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_what_fails_fails_for_those_who_share_it_and_not_for_those_behind() -> None:
    looks, fails = SharedLooks(), True

    async def look() -> bytes:
        await asyncio.sleep(0)
        if fails:
            raise ValueError("the store has no luck")
        return b"there"

    both = [asyncio.create_task(looks.answer("page", look)) for _ in range(2)]
    ended = await asyncio.gather(*both, return_exceptions=True)
    assert [str(error) for error in ended] == ["the store has no luck"] * 2
    fails = False
    assert await looks.answer("page", look) == b"there"
