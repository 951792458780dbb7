"""Readers of a run's event stream, in a process of their own: when did each of them have which event?

    python -m benchmarks.event_readers URL PATH READERS

Prints `ready` once every reader has its stream, reads until its standard input is closed, and then prints one JSON object: for
each event id when readers had it, by the clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable
from urllib.parse import urlsplit

EVENT_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)
SIDE_BY_SIDE = 50


class Reader(asyncio.Protocol):
    """One stream; it keeps nothing but the moment of each event."""

    def __init__(self, request: bytes, begun: Callable[[], None], had: dict[int, list[float]]) -> None:
        self._request = request
        self._begun = begun
        self._had = had
        self._last = 0
        self._head = True
        self._rest = b""
        self.twice = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if self._head and b"retry:" in (self._rest + data):
            self._head = False
            self._begun()
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        for found in EVENT_ID.finditer(data[:end]):
            event = int(found.group(1))
            if event <= self._last:
                self.twice += 1
            self._last = event
            self._had.setdefault(event, []).append(now)


async def read(url: str, path: str, readers: int) -> None:
    """Connect, say so, read, and tell."""
    loop = asyncio.get_running_loop()
    place = urlsplit(url)
    request = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
    had: dict[int, list[float]] = {}
    protocols: list[Reader] = []
    room = asyncio.Semaphore(SIDE_BY_SIDE)

    async def connect() -> None:
        async with room:
            begun = asyncio.Event()
            reader = Reader(request, begun.set, had)
            protocols.append(reader)
            await loop.create_connection(lambda: reader, place.hostname or "", place.port or 80)
            await begun.wait()

    await asyncio.gather(*(connect() for _ in range(readers)))
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps({"had": had, "twice": sum(reader.twice for reader in protocols)}), flush=True)


if __name__ == "__main__":
    asyncio.run(read(sys.argv[1], sys.argv[2], int(sys.argv[3])))
