"""Connections to MCP servers, by the official SDK: one for each server and worker, opened when it is first needed.

The SDK is loaded then, too: it is an extra, and takes its time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog

from activities.endpoints.endpoint_policy import NotListed, OperatorLists
from activities.targets.faults import Fault, Refused, Unreachable
from workflows.model.failures import described, shorten

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

log = structlog.get_logger("agents")

SECONDS_TO_CONNECT = 30.0
MOST_PAGES = 20
"""Of a server's list of tools."""


class McpServers:
    """The worker's connections."""

    def __init__(self, lists: OperatorLists) -> None:
        self._lists = lists
        self._open: dict[tuple[str, str], McpConnection] = {}

    def over_stdio(self, server: str) -> McpConnection:
        """A server that the operator gave a command."""
        try:
            command = tuple(self._lists.mcp_command(server))
        except NotListed as error:
            raise Refused(str(error), kind="unknown server") from None
        return self._at((server, ""), command=command)

    def over_http(self, url: str, headers: Mapping[str, str]) -> McpConnection:
        """A server behind a URL that may be called."""
        return self._at(("", url), url=url, headers=headers)

    def _at(self, place: tuple[str, str], **where: Any) -> McpConnection:
        if place not in self._open:
            self._open[place] = McpConnection(place[0] or place[1], **where)
        return self._open[place]

    async def close(self) -> None:
        """End all connections, and the servers that were started for them."""
        connections, self._open = self._open, {}
        for connection in connections.values():
            await connection.close()


class McpConnection:
    """A connection that is opened anew after it broke. A task of its own holds it, as the SDK wants it closed where it was
    opened."""

    def __init__(
        self, name: str, *, command: tuple[str, ...] = (), url: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        self._name = name
        self._command = command
        self._url = url
        self._headers = dict(headers or {})
        self._holder: asyncio.Task[None] | None = None
        self._client: asyncio.Future[Client] | None = None
        self._end = asyncio.Event()
        self._tools: list[Tool] | None = None

    async def tools(self) -> list[Tool]:
        """What the server has, asked for once for each connection."""
        async with self._connected() as client:
            if self._tools is None:
                self._tools = await _listed(client)
            return self._tools

    async def call(self, name: str, arguments: dict[str, Any], timeout: float, meta: dict[str, Any] | None) -> Any:
        """The server's result. Raises TimeoutError, what the SDK raises for an error of the protocol, and Unreachable."""
        async with self._connected() as client:
            async with asyncio.timeout(timeout):
                return await client.call_tool(name, arguments, meta=meta)  # type: ignore[arg-type]

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        client = await self._opened()
        try:
            yield client
        except (TimeoutError, Unreachable):
            raise
        except MCPError as error:
            if error.error.code != CONNECTION_CLOSED:
                raise
            await self.close()
            raise Unreachable(f"MCP server {self._name} is gone: {error}") from error
        except Exception as error:  # nobody lists what transports raise
            await self.close()
            raise Unreachable(shorten(f"MCP server {self._name}: {described(error)}")) from error

    async def _opened(self) -> Client:
        if self._client is None or self._holder is None or self._holder.done():
            self._tools, self._end = None, asyncio.Event()
            self._client = asyncio.get_running_loop().create_future()
            self._holder = asyncio.create_task(self._hold(self._client, self._end))
        return await asyncio.shield(self._client)

    async def _hold(self, opened: asyncio.Future[Client], end: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(SECONDS_TO_CONNECT) as limit, self._made() as client:
                limit.reschedule(None)
                opened.set_result(client)
                await end.wait()
        except Exception as error:
            told = _fault_of(error, f"MCP server {self._name} cannot be reached")
            if not opened.done():
                opened.set_exception(told)
                opened.exception()  # whoever waits is told; nobody may
            else:
                log.warning("an MCP connection broke", server=self._name, error=str(told))

    @asynccontextmanager
    async def _made(self) -> AsyncIterator[Client]:
        try:
            import httpx2
            from mcp import Client, StdioServerParameters
            from mcp.client.streamable_http import streamable_http_client
        except ImportError:
            raise Refused("tools of MCP servers need ratchet-optimizer[mcp] where the workers run; install it") from None
        if self._command:
            async with Client(StdioServerParameters(command=self._command[0], args=list(self._command[1:]))) as client:
                yield client
            return
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=httpx2.Timeout(SECONDS_TO_CONNECT, read=None)) as http,
            Client(streamable_http_client(self._url, http_client=http)) as client,
        ):
            yield client

    async def close(self) -> None:
        """End the connection, and the server that was started for it."""
        holder, self._holder, self._client = self._holder, None, None
        if holder is None:
            return
        self._end.set()
        if holder is not asyncio.current_task():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({holder}, timeout=SECONDS_TO_CONNECT)
            holder.cancel()


def _fault_of(error: BaseException, what: str) -> Fault:
    """What went wrong first, where tasks of the SDK report it together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Fault) else Unreachable(shorten(f"{what}: {described(error)}"), billed="no")


async def _listed(client: Client) -> list[Tool]:
    """All tools of a server, page by page."""
    found, cursor = [], None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return found
