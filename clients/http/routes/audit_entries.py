"""The audit log over HTTP, for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from clients.http.backend import NO_CONTROLS, Limit, Served
from clients.http.errors import responses
from store.read.access.audit_log import AuditEntry

router = APIRouter(prefix="/v1/private/audit", tags=["audit"])


@router.get("", operation_id="listAuditEntries", responses=responses())
async def list_audit_entries(
    backend: Served,
    run: Annotated[
        str | None, Query(min_length=1, max_length=500, pattern=NO_CONTROLS, description="Only what was done to this run.")
    ] = None,
    before: Annotated[int | None, Query(ge=1, lt=2**63, description="Only entries before the one of this number.")] = None,
    limit: Limit = 100,
) -> list[AuditEntry]:
    """Who did what to which run or prompt, when, the newest first. It holds no text of prompts, samples or answers."""
    return await backend.reader.audit.newest(run_id=run, before=before, limit=limit)
