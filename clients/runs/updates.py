"""Signals, cancellations and updates, with a worker for the time of the call where one is needed."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from clients.commands.context import CommandError, Context, ExitCode
from clients.embedded.stack import stack_state
from clients.local_audit import audited
from clients.runs.lookup import TERMINAL, KnownRun, reach_run
from clients.runs.questions import agreed, is_at_terminal
from clients.runs.service.run_code import notes_for
from clients.runs.service.servers import Servers, ServersAway
from clients.runs.service.workers import workers_for
from store.read.rows.run_rows import RunSummary
from store.write.retention.legal_holds import HeldRun
from store.write.runs import Runs
from workflows.model.run.query_answers import UpdateAnswer

Answer = TypeVar("Answer")

SOMEBODY_ANSWERS_WITHIN = 2.0
"""Seconds. Where the stack was running before us, somebody else's worker usually answers at once."""
ANSWERED_WITHIN = 30.0


@dataclass(frozen=True)
class OpenRun:
    """A run that something may be asked of."""

    servers: Servers
    known: KnownRun
    sleeps: bool
    """Nothing ran here before this command, and nothing will after it: the run acts on what it is asked when it wakes."""

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.servers.client.get_workflow_handle(self.known.run_id)

    def tell(self, context: Context, told: str, **facts: Any) -> None:
        run_id = self.known.run_id
        sleeping = f"\nThe run sleeps: nothing runs here now. `ratchet watch {run_id}` wakes it, and it acts on this first."
        more = {"run_id": run_id, "status": self.known.status, "message": told, "sleeps": self.sleeps}
        context.facts(more | facts, f"{run_id}: {told}{sleeping if self.sleeps else ''}")


async def stop_run(context: Context, run_id: str, reason: str | None) -> int:
    """Send `stop_early`."""
    async with _open_run(context, run_id) as run:
        async with audited(run.servers.database, "stop", run_id=run_id):
            with just_ended(run_id):
                await run.handle.signal("stop_early", reason)
        run.tell(context, "asked to stop early: it finishes what is in flight, keeps the best, and reports")
    return ExitCode.DONE


async def cancel_run(context: Context, run_id: str) -> int:
    """Request the cancellation."""
    async with _open_run(context, run_id) as run:
        async with audited(run.servers.database, "cancel", run_id=run_id):
            with just_ended(run_id):
                await run.handle.cancel()
        run.tell(context, "asked to cancel: trials in flight are cut off, and what is known so far is kept")
    return ExitCode.DONE


async def update_run(context: Context, run_id: str, name: str, argument: dict[str, Any] | None) -> int:
    """Execute an update. Only a worker can answer it; on embedded servers one is brought along unless somebody answers."""
    async with _open_run(context, run_id) as run:
        arguments = [] if argument is None else [argument]
        call = run.handle.execute_update(name, args=arguments, id=f"cli-{uuid.uuid4().hex}", result_type=UpdateAnswer)
        async with audited(run.servers.database, name, run_id=run_id):
            with refusals(name, run_id=run_id), just_ended(run_id):
                answer = await answered(context, run.servers, name, call, sleeps=run.sleeps)
        run.tell(context, answer.message, status=answer.status)
    return ExitCode.DONE


async def answered(context: Context, servers: Servers, name: str, call: Coroutine[Any, Any, Answer], *, sleeps: bool) -> Answer:
    """The answer to an update. Only a worker can give it; on embedded servers one is brought along unless somebody answers."""
    asking = asyncio.create_task(call)
    try:
        async with asyncio.timeout(ANSWERED_WITHIN):  # the SDK itself would ask for ever
            await _until_answered(context, servers, asking, sleeps)
            return await asking
    except TimeoutError:
        missing = f"no worker answered {name} within {ANSWERED_WITHIN:g} s; start one (ratchet worker) and ask again"
        raise ServersAway(missing) from None
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _until_answered(context: Context, servers: Servers, asking: asyncio.Task[Any], sleeps: bool) -> None:
    if not sleeps:
        await asyncio.wait({asking}, timeout=SOMEBODY_ANSWERS_WITHIN)
    if asking.done() or not servers.embedded:
        await asyncio.wait({asking})
        return
    async with workers_for(servers, context.home, role="workflows") as workers:
        hopeless = asyncio.create_task(workers.until_hopeless())
        try:
            await asyncio.wait({asking, hopeless}, return_when=asyncio.FIRST_COMPLETED)
            if hopeless.done():
                raise hopeless.result()
        finally:
            hopeless.cancel()
            await asyncio.gather(hopeless, return_exceptions=True)


async def delete_run(context: Context, run_id: str, *, yes: bool) -> int:
    """Delete what the store has of a finished run, once a person has agreed to it."""
    async with reach_run(context.home, run_id) as (servers, run):
        if run.is_open:
            raise CommandError(f"{run_id} is {run.status}; `ratchet cancel {run_id}` first, or `ratchet stop {run_id}`")
        if run.row is not None and not yes:
            await _refuse_unless_agreed(context, run.row)
        async with audited(servers.database, "delete", run_id=run_id):
            try:
                deleted = await Runs(servers.database).delete(run_id)
            except HeldRun as error:
                raise CommandError(str(error)) from None
        notes_for(servers, context.home).forget(run_id)
        told = "deleted" if deleted else "has nothing in the store"
        context.facts({"run_id": run_id, "deleted": deleted}, f"{run_id}: {told}")
    return ExitCode.DONE


async def _refuse_unless_agreed(context: Context, run: RunSummary) -> None:
    paid = f"{run.spend.samples:,} answers that were paid for"
    if not is_at_terminal(context):
        raise CommandError(f"{run.run_id} has {paid}, and there is nobody to ask: give --yes to delete them")
    if not await agreed(f"Delete {run.run_id}, with {paid}?", unless_said=False):
        raise CommandError("nothing was deleted", ExitCode.CANCELLED)


@asynccontextmanager
async def _open_run(context: Context, run_id: str) -> AsyncIterator[OpenRun]:
    ran_before = stack_state(context.home).running
    async with reach_run(context.home, run_id) as (servers, run):
        if not run.is_open:
            how = run.row.status if run.row is not None and run.row.status in TERMINAL else "over"
            raise CommandError(
                f"{run_id} is {how} already; `ratchet report {run_id}` shows how it ended", facts={"run_id": run_id}
            )
        yield OpenRun(servers, run, servers.embedded and not ran_before)


@contextmanager
def just_ended(run_id: str) -> Iterator[None]:
    """What is asked of a run that ended in the meantime."""
    try:
        yield
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise CommandError(f"{run_id} has just ended; `ratchet report {run_id}` shows how") from None
        raise


@contextmanager
def refusals(name: str, **facts: Any) -> Iterator[None]:
    """What an update was answered that was not taken up."""
    try:
        yield
    except WorkflowUpdateFailedError as error:
        told = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
        raise CommandError(f"{name} was refused: {told}", facts=facts) from None
