"""`python -m clients.demo`: the simulated server as a process of its own.

It prints one JSON line when it is ready, and exits on SIGTERM, on Ctrl-C, when a pipe on its standard input is closed,
or when the process that started it is gone.
"""

import argparse
import asyncio
import json
import os
import signal
import stat
import sys

from clients.demo.injected_faults import parse_rules_json
from clients.demo.model_server import simulated_model

_PARENT_CHECK_SECONDS = 0.5


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and serve."""
    parent = os.getppid()  # before anything else: once we are ready it may already be gone
    options = _parser().parse_args(arguments)
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(options, parent))
    else:
        uvloop.run(_serve(options, parent))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}", description="A simulated model server that speaks the OpenAI protocol."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 (default) takes a free port")
    parser.add_argument("--seed", type=int, default=7, help="decides all noise")
    parser.add_argument("--latency-ms", type=float, default=25.0, help="mean time per answer")
    parser.add_argument("--jitter", type=float, default=0.3, help="fraction of the mean")
    parser.add_argument("--requests-per-second", type=float, default=None, help="answer 429 beyond this rate")
    parser.add_argument("--required-key", default=None, help="answer 401 to any other API key")
    parser.add_argument("--rules", default="[]", help="control rules as JSON")
    return parser


async def _serve(options: argparse.Namespace, parent: int) -> None:
    finished = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, finished.set)
    async with simulated_model(
        host=options.host,
        port=options.port,
        seed=options.seed,
        latency_ms=options.latency_ms,
        jitter=options.jitter,
        requests_per_second=options.requests_per_second,
        required_key=options.required_key,
        rules=list(parse_rules_json(options.rules)),
    ) as server:
        ready = {"simulated": True, "url": server.url, "base_url": server.base_url, "pid": os.getpid()}
        print(json.dumps(ready), flush=True)
        _watch_parent(loop, parent, finished)
        watcher = asyncio.create_task(_watch_input(finished))
        await finished.wait()
        watcher.cancel()


async def _watch_input(finished: asyncio.Event) -> None:
    """A parent that holds our standard input as a pipe ends us by closing it; a terminal or /dev/null means nothing."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4096):
        pass
    finished.set()


def _watch_parent(loop: asyncio.AbstractEventLoop, parent: int, finished: asyncio.Event) -> None:
    if os.getppid() != parent:
        finished.set()
    else:
        loop.call_later(_PARENT_CHECK_SECONDS, _watch_parent, loop, parent, finished)


if __name__ == "__main__":
    main()
