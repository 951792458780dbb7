"""What is done over HTTP, written into the audit log before it is done, and how it ended before that is answered."""

from __future__ import annotations

from typing import Annotated, Final

import structlog
from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clients.http.access.callers import CALLER
from clients.http.access.roles import deed_of, matched
from clients.http.access.security import answer_refusal
from clients.http.errors import MAY_BE_AWAY, Problem
from clients.local_audit import DeedNote, told_ended
from store.connection import Database, is_away
from store.read.access.audit_log import DeedEnding
from store.write.access.audit_log import AuditLog

log = structlog.get_logger("http.audit")

NOTE: Final = "ratchet.audit"
"""Where a request's scope keeps what is only known while it is answered."""


class Audited:
    """Between the guard and the application."""

    def __init__(self, app: ASGIApp, database: Database) -> None:
        self._app = app
        self._audit = AuditLog(database)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = matched(scope["method"], scope["path"]) if scope["type"] == "http" and CALLER in scope else None
        if path is None or path.rule.action is None:
            await self._app(scope, receive, send)
            return
        try:
            number = await self._audit.add(deed_of(scope[CALLER], path))
        except MAY_BE_AWAY as error:
            if not is_away(error):
                raise
            log.warning("the audit log cannot be written", error=repr(error))
            told = (
                "the store, which keeps the audit log, cannot be reached just now; nothing was changed, send the request again"
            )
            await answer_refusal((503, Problem(message=told)), send)
            return
        note = scope[NOTE] = DeedNote()
        outcome: DeedEnding | None = None

        async def send_once_told(message: Message) -> None:
            nonlocal outcome
            if message["type"] == "http.response.start":
                outcome = _outcome(message["status"])
                await told_ended(self._audit, number, outcome, note)
            await send(message)

        try:
            await self._app(scope, receive, send_once_told)
        finally:
            if outcome is None:
                await told_ended(self._audit, number, "unknown", note)


def _outcome(status: int) -> DeedEnding:
    """A server that failed may have done it all the same; what no worker answered yet counts once one runs."""
    if status < 400:
        return "done"
    return "refused" if status < 500 else "unknown"


def note_of(request: Request) -> DeedNote:
    """What the audit log is still to be told; of a path that is not in it, nobody reads it."""
    note: DeedNote = request.scope.get(NOTE) or DeedNote()
    return note


Noted = Annotated[DeedNote, Depends(note_of)]
