"""The HTTP API: everything that looks at runs or steers them, in one application.

Reads come from the store, so they outlive Temporal's retention; what changes a run is a signal, an update or a cancellation of
its workflow. Started by `ratchet serve` and by `ratchet dev`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.security import HTTPBearer
from pydantic import Field
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp
from temporalio.runtime import Runtime

from clients.credentials import session_of
from clients.http import DEFAULT_HOST, DEFAULT_PORT
from clients.http.access.audited_requests import Audited
from clients.http.access.callers import CalledBy, Callers
from clients.http.access.roles import Ownership, PathAdmission, methods_at
from clients.http.access.security import API, SESSION_COOKIE, Guard, Trust, origins_of
from clients.http.backend import Backend
from clients.http.bodies import JsonRoute
from clients.http.encoded_slashes import WholeSegments
from clients.http.errors import Refused, answer_errors, responses
from clients.http.feed import Feed
from clients.http.routes import audit_entries, codec, dataset_uploads, datasets, labels, prompts, releases, specs, teams
from clients.http.routes.page import serve_page
from clients.http.routes.runs import (
    marks,
    matrix,
    proposals,
    replays,
    reported_runs,
    retries,
    run_comparison,
    run_reports,
    sample_files,
    start,
    steering,
    stored_runs,
    streams,
    trials,
)
from clients.runs.ended_runs import looking_after_ended_runs
from clients.runs.service.servers import Servers
from clients.traces import TRACING
from ratchet._frozen import Payload
from store.connection import Database
from store.read.access.access_tokens import Role
from store.write.access.audit_log import AuditLog

CONNECTIONS: Final = 10
"""To PostgreSQL, one more listens."""
SEND_BUFFER: Final = 64 * 1024
"""Bytes that the kernel keeps for a reader who does not read; left to itself it would keep megabytes for each."""
CLOSING_TAKES_AT_MOST: Final = 5
TRACED: Final = ("POST", "PUT", "PATCH", "DELETE")
"""Requests that begin or change something. Who only looks is not traced: the page looks all the time."""

BEARER: Final = HTTPBearer(auto_error=False, description="The server's token, or one that an admin made. The guard checks it.")

session_router = APIRouter(prefix="/v1/private/session", tags=["session"], route_class=JsonRoute)


class TokenGiven(Payload):
    """A token."""

    token: str = Field(max_length=1000)


class Session(Payload):
    """Who asks."""

    name: str
    """The token's name; where it has none, how the audit log calls its holder."""
    is_named: bool
    """Whether approvals are recorded under this name. Else whoever approves says who he is."""
    role: Role
    team: str | None
    """Whose runs, prompts and datasets are all that one sees; nothing for admins, who see those of all teams."""


@session_router.post("", operation_id="openSession", status_code=204, responses=responses(), response_class=Response)
async def open_session(given: TokenGiven, request: Request) -> Response:
    """Exchange a token for a cookie, which scripts cannot read, so that the page need not keep the token."""
    callers: Callers = request.app.state.callers
    response, token = Response(status_code=204), given.token.strip()
    if not callers.asked_for_token:
        return response
    if not await callers.knows(token):
        raise Refused(401, "this is no token of this server, or one that is over", "token")
    _remember(response, token, request)
    return response


@session_router.get("", operation_id="getSession", responses=responses())
async def get_session(caller: CalledBy) -> Session:
    """Who the request's token or cookie says that one is, and with which role."""
    return Session(name=caller.name, is_named=caller.is_named, role=caller.role, team=caller.sees_only)


@session_router.delete("", operation_id="closeSession", status_code=204, responses=responses(), response_class=Response)
async def close_session() -> Response:
    """Forget the cookie."""
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict", path="/")
    return response


async def welcomed(callers: Callers, token: str, request: Request) -> Response:
    """The link that the server printed was opened: its token becomes a cookie, and leaves the address."""
    response = RedirectResponse("/", 303, headers={"Cache-Control": "no-store"})
    if callers.asked_for_token and await callers.knows(token.strip()):
        _remember(response, token.strip(), request)
    return response


def _remember(response: Response, token: str, request: Request) -> None:
    response.set_cookie(
        SESSION_COOKIE, session_of(token), httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
    )


class Health(Payload):
    """That the server answers."""

    status: str = "ok"


def create_app(backend: Backend, trust: Trust) -> ASGIApp:
    """The application behind its guard."""
    app = api_of(backend)
    app.state.callers = Callers(trust, backend.reader.access_tokens, backend.reader.teams)
    admission = PathAdmission(app.state.callers, AuditLog(backend.database), Ownership(backend.reader))
    app.add_middleware(GZipMiddleware, minimum_size=2048, compresslevel=4)
    guard = Guard(Audited(app, backend.database), trust, origins_of(backend.servers.ui_url), admission)
    return WholeSegments(guard, API)


def api_of(backend: Backend) -> FastAPI:
    """The paths."""
    app = FastAPI(
        title="Ratchet",
        summary="Look at optimizations, and steer them",
        description=str(__doc__),
        version="1",
        openapi_url=None,  # the framework would hold everybody up while it makes the document
        docs_url=None,  # the usual pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry={
            "tracing": TRACING.is_on,
            "exclude": lambda scope: scope.get("method") not in TRACED,
            "operation_spans": False,
            "metrics": False,
            "logs": False,  # they would hold what people sent
            "auto_configure": False,
        },
    )
    app.state.backend = backend
    answer_errors(app, methods_at)
    looking = (
        streams,
        stored_runs,
        trials,
        matrix,
        proposals,
        sample_files,
        replays,
        run_comparison,
        run_reports,
        reported_runs,
        audit_entries,
        datasets,
        teams,
    )
    for part in (*looking, start, retries, dataset_uploads, marks, labels, steering, releases, prompts, codec):
        app.include_router(part.router, dependencies=[Depends(BEARER)])
    for router in (specs.router, specs.of_runs):
        app.include_router(router, dependencies=[Depends(BEARER)])
    app.include_router(session_router)

    @app.get("/health", operation_id="getHealth", tags=["session"])
    async def health() -> Health:
        """Whether the server answers; it says nothing of others."""
        return Health()

    making = threading.Lock()

    def described() -> bytes:
        with making:
            return json.dumps(app.openapi()).encode()

    @app.get("/v1/private/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(await asyncio.to_thread(described), media_type="application/json")

    serve_page(app, lambda token, request: welcomed(app.state.callers, token, request))
    return app


@dataclass(frozen=True)
class Address:
    """Where the server answers."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{self.port}"  # noqa: S104 (read, not bound)


class PortTaken(OSError):
    """Somebody else answers there."""


@asynccontextmanager
async def serving_http(
    servers: Servers, trust: Trust, task_queue: str, *, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT
) -> AsyncIterator[Address]:
    """Serve until the block is left. Port 0 takes any that is free."""
    listening = bound(host, port)
    database = await Database.open(servers.database_url, most_connections=CONNECTIONS, keys=servers.database.keys)
    try:
        async with (
            looking_after_ended_runs(servers.client, database),
            Feed(database, Runtime.default().metric_meter).serving() as feed,
        ):
            backend = Backend(servers, database, feed, task_queue)
            app = create_app(backend, trust)
            async with answering(app, listening) as port:
                try:
                    yield Address(host, port)
                finally:
                    feed.close()
                    await backend.prompts.close()
    finally:
        listening.close()
        await database.close()


@asynccontextmanager
async def answering(app: ASGIApp, listening: socket.socket, *, lifespan: Literal["on", "off"] = "off") -> AsyncIterator[int]:
    """Answer for an application until the block is left; gives the port."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan=lifespan,
        timeout_graceful_shutdown=CLOSING_TAKES_AT_MOST,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await server.ready.wait()
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving


class _Server(uvicorn.Server):
    """Leaves signals to the command that serves, and says when it answers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    try:
        listening.bind((host.strip("[]"), port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise PortTaken(f"{host}:{port} cannot be bound: {error.strerror or error}") from error
    listening.setblocking(False)
    return listening
