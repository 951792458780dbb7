"""Bodies of requests: JSON by the letter, read outside of the event loop, which answers others meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final

import pydantic
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from activities.preparing.request_check import Busy, TakesTooLong, checked_apart
from clients.http.errors import Refused
from clients.temporal_payloads import MOST_PROBLEMS, beginning_of
from ratchet._formats.strict_json import LongNumber, RepeatedKey, strict_json

LARGEST_AT_ONCE: Final = 64 * 1024
"""Bytes that are read where they arrive: that takes a few milliseconds."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class JsonRoute(APIRoute):
    """A path whose body is read with care: a key that is there twice is refused, since nobody knows which one was meant."""

    whole: ClassVar[type[pydantic.BaseModel] | None] = None
    """What the body is, where it takes long to validate."""

    def get_route_handler(self) -> Handler:
        handler, whole = super().get_route_handler(), self.whole

        async def handle(request: Request) -> Response:
            body = await request.body()
            if body:
                try:
                    apart = whole is not None or len(body) > LARGEST_AT_ONCE
                    content = await checked_apart(_read, body, whole) if apart else _read(body, whole)
                    request = _ReadRequest(request, body, content)
                except Busy as busy:
                    raise Refused(503, str(busy), retry_after=1) from None
                except TakesTooLong as error:
                    raise Refused(422, str(error)) from None
            return await handler(request)

        return handle


class _ReadRequest(Request):
    """A request whose body was read already."""

    def __init__(self, request: Request, body: bytes, content: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._given, self._content = body, content

    async def body(self) -> bytes:
        return self._given

    async def json(self) -> Any:
        return self._content


def _read(body: bytes, whole: type[pydantic.BaseModel] | None) -> Any:
    try:
        content = strict_json(body)
    except RepeatedKey as error:
        raise Refused(422, f"the body: {error}") from None
    except LongNumber as error:
        line = error.line_in(body.decode("utf-8", "replace"))
        raise Refused(400, f"the body, line {line}: {error}; send one JSON object") from None
    except ValueError as error:
        raise Refused(400, f"the body is not JSON that can be used: {error}; send one JSON object") from None
    return content if whole is None else _validated(content, whole)


def _validated(content: Any, whole: type[pydantic.BaseModel]) -> pydantic.BaseModel:
    try:
        return whole.model_validate(content)
    except pydantic.ValidationError as error:
        if error.error_count() <= MOST_PROBLEMS:
            raise _invalid(error) from None
        count = error.error_count()
    try:
        whole.model_validate(beginning_of(content))
    except pydantic.ValidationError as error:
        raise _invalid(error) from None
    raise Refused(422, f"the spec has {count:,} problems; they are not at the beginning of its lists and mappings")


def _invalid(error: pydantic.ValidationError) -> RequestValidationError:
    problems = error.errors(include_url=False)
    return RequestValidationError([{**problem, "loc": ("body", *problem["loc"])} for problem in problems])
