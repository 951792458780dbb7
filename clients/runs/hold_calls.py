"""Legal holds that a person sets and lifts."""

from __future__ import annotations

from clients.commands.context import CommandError, Context, ExitCode
from clients.local_audit import audited
from clients.os_user import os_user
from clients.prompts.stores import user
from clients.reports.text.terminal_text import one_line
from clients.runs.lookup import reach_run
from store.write.retention.legal_holds import HoldRequest, LegalHolds


async def hold_run(context: Context, run_id: str, label: str, by: str | None, reason: str) -> int:
    """Hold a run that the store knows."""
    async with reach_run(context.home, run_id) as (servers, run):
        if run.row is None:
            raise CommandError(f"{run_id} has nothing in the store yet; hold it once it has begun")
        asked = HoldRequest(label, by or user(), os_user(), reason)
        async with audited(servers.database, "hold", run_id=run_id, subject=label):
            hold = await LegalHolds(servers.database).set(run_id, asked)
    told = f"{run_id}: held for {hold.label!r} by {hold.set_by} since {hold.set_at.astimezone():%Y-%m-%d %H:%M}"
    context.facts({"run_id": run_id, "hold": hold.model_dump(mode="json")}, one_line(told))
    return ExitCode.DONE


async def lift_hold(context: Context, run_id: str, label: str, by: str | None) -> int:
    """Lift a hold that is in force."""
    async with (
        reach_run(context.home, run_id) as (servers, run),
        audited(servers.database, "lift hold", run_id=run_id, subject=label),
    ):
        holds = LegalHolds(servers.database)
        lifted = run.row is not None and await holds.lift(run_id, label, f"{by or user()}, {os_user()}")
    if not lifted:
        raise CommandError(f"{run_id} is not held for {label!r}; `ratchet retention` lists the runs that are")
    context.facts({"run_id": run_id, "lifted": label}, one_line(f"{run_id}: no longer held for {label!r}"))
    return ExitCode.DONE
