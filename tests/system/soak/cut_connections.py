"""A small TCP proxy between workers and a server: its connections are cut, or stand still, when a soak says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """Passes bytes on, until it is told otherwise."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> int:
        """Reset every connection; how many there were."""
        there = list(self._open)
        for writer in there:
            writer.transport.abort()
        return len(there)

    def hold(self) -> None:
        """Pass nothing on, and break nothing off."""
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    async def end(self) -> None:
        self.release()
        if self._server is not None:
            self._server.close()
        self.cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        try:
            behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, behind_writer}
        self._open |= both
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, behind_writer))
                group.create_task(self._pass_on(behind_reader, writer))
        finally:
            self._open -= both
            for one in both:
                one.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until this end says that there is no more. Where it breaks off, as that of a killed worker may, so does the other:
        what is behind it would wait for ever."""
        try:
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            writer.transport.abort()


@asynccontextmanager
async def proxied(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.end()
