"""Reading server-sent events in tests: bytes off the wire into events, however slowly, from wherever one stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Seen:
    """One event."""

    id: int
    type: str
    data: dict[str, Any]


@dataclass
class RawStream:
    """A stream over a plain socket, so that a test decides when anything is read."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    status: int
    headers: dict[str, str]
    comments: list[str] = field(default_factory=list)

    async def next(self, within: float = 30.0) -> Seen:
        """The next event."""
        async with asyncio.timeout(within):
            fields: dict[str, str] = {}
            while True:
                line = await self._line()
                if line.startswith(":"):
                    self.comments.append(line[1:].strip())
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "event" in fields:
                    return Seen(int(fields.get("id", 0)), fields["event"], json.loads(fields["data"]))
                else:
                    fields = {}

    async def take(self, count: int) -> list[Seen]:
        return [await self.next() for _ in range(count)]

    async def until(self, kind: str) -> list[Seen]:
        """Every event up to the first of a type."""
        seen = [await self.next()]
        while seen[-1].type != kind:
            seen.append(await self.next())
        return seen

    async def _line(self) -> str:
        """One line of the body; the server sends it in chunks, each of which ends at the end of an event."""
        line = await self.reader.readline()
        if not line:
            raise EOFError("the stream ended")
        text = line.decode().rstrip("\n")
        if text.endswith("\r"):  # the size of a chunk, or the end of one
            if text.strip() == "0":
                raise EOFError("the stream ended")
            return await self._line()
        return text


@asynccontextmanager
async def reading(url: str, path: str, **headers: str) -> AsyncIterator[RawStream]:
    """A stream, from its first line on."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=1 << 16)
    try:
        lines = [f"GET {path} HTTP/1.1", f"Host: {place.netloc}", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        given = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        yield RawStream(reader, writer, int(head[0].split()[1]), given)
    finally:
        writer.close()
