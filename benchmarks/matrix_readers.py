"""Pages that have the matrix of a live run open, in a process of their own: each looks again as a page does after a trial.

    python -m benchmarks.matrix_readers URL PATH READERS

Prints `ready` once every page has its first rows, looks again and again until its standard input is closed, and then prints one
JSON object: how long each look took, in seconds.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

import aiohttp

SECONDS_BETWEEN_LOOKS = 3.0
"""At least, and at most twice as many: `NEWS` of `clients/page/views/matrix.js`."""

SIDE_BY_SIDE = 50


async def look(url: str, path: str, readers: int) -> None:
    """Open all pages, say so, follow the run, and tell."""
    took: list[float] = []

    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0)) as http:
        room = asyncio.Semaphore(SIDE_BY_SIDE)

        async def page() -> None:
            began = time.perf_counter()
            async with http.get(path) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()
            took.append(time.perf_counter() - began)

        async def opened() -> None:
            async with room:
                await page()

        async def followed() -> None:
            while True:
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS * (1 + random.random()))
                await page()

        await asyncio.gather(*(opened() for _ in range(readers)))
        took.clear()
        print("ready", flush=True)
        following = [asyncio.create_task(followed()) for _ in range(readers)]
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        broken = [task for task in following if task.done()]
        for task in following:
            task.cancel()
        await asyncio.gather(*broken)
    print(json.dumps({"took": took}), flush=True)


if __name__ == "__main__":
    asyncio.run(look(sys.argv[1], sys.argv[2], int(sys.argv[3])))
