"""The page: files that are served as they are. Whoever may reach the server may have them; what they show needs the token."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FILES: Final = Path(__file__).resolve().parents[2] / "page"
KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
"""Named here, because what a machine knows of types is not to be relied on."""
ASK_AGAIN: Final = "no-cache"
"""Browsers keep the files and ask whether they are still the same, so that a new version is seen at once."""


class PageFiles(StaticFiles):
    """The page's modules and styles, and nothing else that may lie beside them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        if Path(path).suffix not in KINDS:
            raise HTTPException(404)
        return await super().get_response(path, scope)

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = ASK_AGAIN
        if response.status_code == 200:
            response.headers["Content-Type"] = f"{KINDS[Path(full_path).suffix]}; charset=utf-8"
        return response


def serve_page(app: FastAPI, welcomed: Callable[[str, Request], Awaitable[Response]]) -> None:
    """The page at `/`, its parts under `/page`. `welcomed` answers a request that brings the token in its address."""

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index(request: Request, token: str | None = None) -> Response:
        if token is not None:
            return await welcomed(token, request)
        return FileResponse(FILES / "index.html", media_type="text/html", headers={"Cache-Control": ASK_AGAIN})

    app.mount("/page", PageFiles(directory=FILES))
