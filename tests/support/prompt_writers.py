"""Many writers on one tag: each sets a flag of its own, on top of whatever is there. Also run as a process of its own."""

from __future__ import annotations

import asyncio
import random
import sys
import time

from ratchet.prompts import Change, Overrides, OverrideStore, PromptTemplate, StaleBase, open_store

NAME = "crowd/flags"


def flags(count: int) -> PromptTemplate:
    """A prompt with as many flags, all down."""
    return PromptTemplate.model_validate(
        {
            "prompt": NAME,
            "sections": [{"path": "task", "body": "Do what the flags say."}],
            "parameters": {f"flag-{number}": {"type": "flag", "value": False} for number in range(count)},
        }
    )


async def raise_flag(store: OverrideStore, number: int) -> None:
    """Read, change, write; again when somebody else was faster."""
    tries = 0
    while True:
        begun = time.monotonic()
        seen = await store.resolve(NAME, tag="stable")
        overrides = Overrides(parameters={**seen.state.overrides.parameters, f"flag-{number}": True})
        change = Change(id=f"writer-{number}", by=f"writer {number}")
        try:
            await store.store(seen.template, overrides, tag="stable", expected=seen.state.revision, change=change)
        except StaleBase:
            tries += 1
            # The slower the store, the longer the pause: a crowd that only refuses each other proves nothing.
            await asyncio.sleep(random.uniform(0, (time.monotonic() - begun) * min(tries, 20)))
        else:
            return


async def raise_flags(url: str, numbers: list[int]) -> None:
    async with await open_store(url) as store:
        await asyncio.gather(*(raise_flag(store, number) for number in numbers))


if __name__ == "__main__":
    asyncio.run(raise_flags(sys.argv[1], [int(number) for number in sys.argv[2:]]))
