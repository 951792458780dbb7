"""What a turn of an agent costs beside its model's and its tool's own time: the request, the call, and storing both.

python -m benchmarks.agent_turns [--quick]
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from aiohttp import web

from benchmarks.figures import Bench, Figure, bench_stack, main
from benchmarks.specs import spec

SAMPLES, TURNS = 20, 8
MESSAGES = [{"role": "user", "content": "{{input}}"}]
TOOL = {"kind": "python", "ref": "bench_plugins:noted", "description": "Notes it.", "parameters": {"type": "object"}}


async def chat(request: web.Request) -> web.Response:
    """A model that takes no time, and calls its tool for as many turns as its name says."""
    asked = await request.json()
    turn = sum(1 for message in asked["messages"] if message["role"] == "assistant")
    message: dict[str, Any] = {"role": "assistant", "content": "0.5"}
    if turn < int(asked["model"]) - 1:
        message = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "noted", "arguments": "{}"}}]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})


async def measure(quick: bool) -> list[Figure]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    found: list[Figure] = []
    try:
        async with bench_stack() as bench:
            await wall(bench, url, TURNS, 1, "warm-up")
            for concurrent in (1, 16):
                repeats = range(3 if quick else 7)
                long = [await wall(bench, url, TURNS, concurrent, f"{repeat}") for repeat in repeats]
                short = [await wall(bench, url, 1, concurrent, f"{repeat}") for repeat in repeats]
                taken = statistics.median(long) - statistics.median(short)
                name = f"overhead per turn, {concurrent} conversation{'s' if concurrent > 1 else ''} at once"
                found.append(Figure(name, taken * 1000 / SAMPLES / (TURNS - 1), 15.0, "ms"))
    finally:
        await runner.cleanup()
    return found


async def wall(bench: Bench, url: str, turns: int, concurrent: int, name: str) -> float:
    """Seconds of a run whose conversations have so many turns, each but the last with a call of the tool."""
    target = {"kind": "agent", "messages": MESSAGES, "tools": [TOOL], "model": str(turns), "base_url": url}
    execution = {"concurrent_samples": concurrent}
    asked = spec("instant", SAMPLES, 1, execution=execution, optimizer="none", configuration={"x": 1}) | {"target": target}
    began = time.perf_counter()
    await bench.run(f"turns-{turns}-{concurrent}-{name}", asked)
    return time.perf_counter() - began


if __name__ == "__main__":
    main(f"Overhead per turn: {SAMPLES} conversations of {TURNS} turns, a model and a tool that take no time", measure)
