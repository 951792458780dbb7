"""Errors as HTTP answers: one shape, the right status, and a message that names the field and the fix."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

import asyncpg
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from temporalio.service import RPCError

from clients.http.encoded_slashes import as_sent
from clients.runs.service.servers import is_unreachable
from ratchet._frozen import Payload
from ratchet._text.explanation import explained
from store.connection import is_away

log = structlog.get_logger("http")

MAY_BE_AWAY = (OSError, RPCError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What a server that is away is told by; named one by one, because the handler of `Exception` also logs a traceback."""

WORDS = {
    404: "there is nothing at this path; see /v1/private/openapi.json",
    405: "this path does not take this method; see /v1/private/openapi.json",
}


class Problem(Payload):
    """What is wrong."""

    field: str | None = None
    """The field or parameter that is wrong, where it is one."""
    message: str
    """What is wrong and what to do."""


class Problems(Payload):
    """Why there is no other answer."""

    error: Problem
    problems: tuple[Problem, ...] = Field(default_factory=tuple)
    """All that was found, when it is more than one thing."""


class Refused(Exception):
    """A request that cannot be met; whoever asked can put it right."""

    def __init__(self, status: int, message: str, field: str | None = None, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.field = field
        self.retry_after = retry_after


def problem_answer(status: int, *problems: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """One problem, or several with the first in front."""
    told = Problems(error=problems[0], problems=problems if len(problems) > 1 else ())
    return JSONResponse(told.model_dump(mode="json"), status, headers=headers)


def problem_of(line: str) -> Problem:
    """`field: what is wrong` as a problem."""
    where, separator, _ = line.partition(": ")
    return Problem(field=where if separator and " " not in where else None, message=line)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a path documents, beside those that every path has."""
    words = {
        400: "The request cannot be read",
        401: "No token, or a wrong one",
        403: "Sent from another site, or for another host",
        404: "There is no such run, trial or candidate",
        409: "The run is not in a state to do that",
        413: "The request is too large",
        415: "The request is not JSON",
        422: "A field or a parameter is wrong",
        503: "Temporal or the store cannot be reached; try again",
        504: "No worker answered in time",
    }
    every = sorted({400, 401, 403, 422, 503, *statuses})
    return {status: {"model": Problems, "description": words[status]} for status in every}


def answer_errors(app: FastAPI, methods_at: Callable[[str], set[str]]) -> None:
    """Every error of the application becomes one of these answers; nothing of our inside is ever shown. `methods_at` tells
    every method that a path takes."""
    handlers: dict[type[Exception], Callable[[Request, Any], Awaitable[Response]]] = {
        Refused: _refused,
        RequestValidationError: _invalid,
        HTTPException: partial(_by_framework, methods_at),
        **dict.fromkeys((*MAY_BE_AWAY, Exception), _unforeseen),
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, cast("Any", handler))


async def _refused(_request: Request, error: Refused) -> Response:
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return problem_answer(error.status, Problem(field=error.field, message=str(error)), headers=headers)


async def _invalid(_request: Request, error: RequestValidationError) -> Response:
    problems = error.errors()
    if any(problem["type"] == "json_invalid" for problem in problems):
        told = str(problems[0].get("ctx", {}).get("error", "it is not JSON"))
        return problem_answer(400, Problem(message=f"the body is not JSON that can be used: {told}; send one JSON object"))
    lines = explained([{**problem, "loc": tuple(problem["loc"])[1:]} for problem in problems])
    return problem_answer(422, *[problem_of(line) for line in lines])


async def _by_framework(methods_at: Callable[[str], set[str]], request: Request, error: HTTPException) -> Response:
    told = WORDS.get(error.status_code) or str(error.detail)
    headers = dict(error.headers or {})
    if error.status_code == 405:  # the framework names the methods of its first route only
        allowed = {method.strip() for method in Headers(headers).get("allow", "GET").split(",")}
        headers = {"Allow": ", ".join(sorted(allowed | methods_at(request.url.path)))}
    return problem_answer(
        error.status_code, Problem(message=f"{request.method} {as_sent(request.url.path)[:200]}: {told}"), headers=headers
    )


async def _unforeseen(request: Request, error: Exception) -> Response:
    if is_away(error) or is_unreachable(error):
        what = "Temporal" if isinstance(error, RPCError) else "the store"
        told = f"{what} cannot be reached just now; nothing was changed by this request, send it again"
        return problem_answer(503, Problem(message=told), headers={"Retry-After": "1"})
    log.error("a request failed", path=as_sent(request.url.path), error=repr(error), exc_info=error)
    return problem_answer(500, Problem(message="the server failed in a way nobody foresaw; its log says how"))
