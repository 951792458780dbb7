"""Images of samples, for the page. What a browser could run is not served: no SVG, no HTML."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from clients.http.backend import Served
from clients.http.errors import Refused, responses
from ratchet._files import IMAGES

router = APIRouter(prefix="/v1/private/files", tags=["files"])

FOR_EVER = "private, max-age=31536000, immutable"


@router.get(
    "/{digest}",
    operation_id="getImage",
    responses={**responses(404), 200: {"content": {kind: {} for kind in IMAGES}}},
    response_class=Response,
)
async def get_image(
    digest: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="sha256 of its content.")], backend: Served
) -> Response:
    """An image that a sample names: PNG, JPEG, GIF or WebP, by what it holds."""
    file = await backend.reader.files.load(digest)
    if file is None or file.media_type not in IMAGES:
        raise Refused(404, f"there is no image with sha256 {digest}", "digest")
    return Response(file.content, media_type=file.media_type, headers={"Cache-Control": FOR_EVER})
