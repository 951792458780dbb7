"""What is done from this machine, written into the audit log: there is no token, so the operating system says who it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from clients.commands.context import CommandError, ExitCode
from clients.os_user import os_user
from store.connection import Database
from store.read.access.audit_log import DeedEnding
from store.write.access.audit_log import AuditLog, Deed

log = structlog.get_logger("audit")


@dataclass
class DeedNote:
    """What is only known of a deed while it is done."""

    run_id: str | None = None
    prompt: str | None = None


@asynccontextmanager
async def audited(
    database: Database,
    action: str,
    *,
    run_id: str | None = None,
    prompt: str | None = None,
    subject: str | None = None,
    refusals: tuple[type[Exception], ...] = (),
) -> AsyncIterator[DeedNote]:
    """Write down what is done in the block, before and after it. `refusals` are errors after which nothing was done."""
    audit, note = AuditLog(database), DeedNote()
    number = await audit.add(Deed("local", f"locally, as {os_user()}", action, None, run_id, prompt, subject))
    outcome: DeedEnding = "unknown"
    try:
        yield note
        outcome = "done"
    except CommandError as error:
        outcome = "unknown" if error.code is ExitCode.UNREACHABLE else "refused"
        raise
    except refusals:
        outcome = "refused"
        raise
    finally:
        await told_ended(audit, number, outcome, note)


async def told_ended(audit: AuditLog, number: int, outcome: DeedEnding, note: DeedNote) -> None:
    """Say how a deed ended. It is done by now: where the store is away, the entry stays without an end."""
    try:
        await audit.end(number, outcome, run_id=note.run_id, prompt=note.prompt)
    except Exception as error:
        log.warning("the audit log cannot be told how it ended", entry=number, outcome=outcome, error=repr(error))
