"""The yardstick of an answer's CPU: the same calls in a bare loop, in a process of its own that tells what they took.

    python -m benchmarks.bare_calls chat URL CALLS CONCURRENT
    python -m benchmarks.bare_calls python DATABASE_URL CALLS CONCURRENT
    python -m benchmarks.bare_calls waiting MILLISECONDS CALLS CONCURRENT

`chat` is the OpenAI client as its documentation shows it, on the event loop that workers use; nothing is scored or stored.
`python` awaits the target and the scorer that do nothing, each pair in a task of its own, and stores what they say in batches,
by one statement each, into a table without any index. `waiting` tells wall time, of calls that sleep. None of them knows
retries, limits, budgets, a journal, or what was there before.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

WARM_UP_CALLS: Final = 50
BATCH: Final = 64


async def chat(url: str, calls: int, concurrent: int) -> float:
    """Seconds of CPU for so many chat calls, so many at once."""
    import openai

    from clients.demo.models import ECHO

    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    async def call(number: int) -> None:
        messages: list[Any] = [{"role": "system", "content": "Repeat."}, {"role": "user", "content": f"t{number}"}]
        answer = await client.chat.completions.create(model=ECHO, messages=messages)
        assert answer.choices[0].message.content == f"t{number}"

    await each(call, WARM_UP_CALLS, concurrent)
    return await cpu_of(lambda: each(call, calls, concurrent))


async def python(database_url: str, calls: int, concurrent: int) -> float:
    """Seconds of CPU for so many calls of a target and a scorer that do nothing, with their answers stored."""
    import asyncpg

    from benchmarks.plugins import bench_plugins
    from ratchet import ExperimentContext, Sample

    context = ExperimentContext(id="bare", name="bare", overrides_tag="bare")
    async with asyncpg.create_pool(database_url, min_size=1, max_size=2) as pool:
        await pool.execute("DROP TABLE IF EXISTS bare_answers")
        await pool.execute("CREATE TABLE bare_answers (number int, value float8, score float8)")
        ready: list[tuple[int, float, float]] = []

        async def store() -> None:
            batch, ready[:] = list(ready), []
            columns = zip(*batch, strict=True)
            await pool.execute("INSERT INTO bare_answers SELECT * FROM unnest($1::int[], $2::float8[], $3::float8[])", *columns)

        async def call(number: int) -> None:
            sample = Sample(f"s{number}", number)
            output = await bench_plugins.instant({}, sample, context)
            ready.append((number, output.value, bench_plugins.value(output, sample)))
            if len(ready) >= BATCH:
                await store()

        async def all_of(number: int) -> None:
            await each(call, number, concurrent)
            if ready:
                await store()

        await all_of(WARM_UP_CALLS)
        return await cpu_of(lambda: all_of(calls))


async def waiting(milliseconds: str, calls: int, concurrent: int) -> float:
    """Seconds of wall time for so many calls that only wait; nothing is stored."""

    async def call(number: int) -> None:
        await asyncio.sleep(float(milliseconds) / 1000)

    began = time.perf_counter()
    await each(call, calls, concurrent)
    return time.perf_counter() - began


async def each(call: Callable[[int], Awaitable[None]], calls: int, concurrent: int) -> None:
    """Make the calls, so many at once, each in a task of its own."""
    places = asyncio.Semaphore(concurrent)

    async def one(number: int) -> None:
        try:
            await call(number)
        finally:
            places.release()

    async with asyncio.TaskGroup() as tasks:
        for number in range(calls):
            await places.acquire()
            tasks.create_task(one(number))


async def cpu_of(work: Callable[[], Awaitable[None]]) -> float:
    """Seconds of CPU that this process takes for some work."""
    before = time.process_time()
    await work()
    return time.process_time() - before


async def bare_cpu(kind: str, address: str, calls: int, concurrent: int) -> float:
    """Milliseconds of CPU per call of the bare loop, in a process of its own."""
    return await told_by(kind, address, calls, concurrent) * 1000 / calls


async def told_by(kind: str, address: str, calls: int, concurrent: int) -> float:
    """What such a process tells: seconds."""
    command = ("-m", "benchmarks.bare_calls", kind, address, str(calls), str(concurrent))
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return float(told)


def main(arguments: list[str]) -> None:
    kind, address, calls, concurrent = arguments
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    loop = {"chat": chat, "python": python, "waiting": waiting}[kind]
    with asyncio.Runner(loop_factory=factory) as runner:
        print(runner.run(loop(address, int(calls), int(concurrent))))


if __name__ == "__main__":
    main(sys.argv[1:])
