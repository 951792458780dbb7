"""Finding a run: what Temporal knows of it, what the store knows of it, and what was probably meant."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from clients.commands.context import CommandError
from clients.runs.service.servers import Servers, has_data, reach_servers
from store import events
from store.read.rows.run_rows import RunSummary

if TYPE_CHECKING:
    from clients.reports.comparisons.side_by_side import UnknownEntrant

WORKFLOW = "OptimizationWorkflow"
TERMINAL = tuple(sorted(events.TERMINAL))
MOST_COMPARED = 1000
LONGEST_WRITTEN = 16 * 1024
"""Bytes of a spec as its author wrote it. Whoever lists runs in Temporal is sent what they were started with."""
LONGEST_SECONDS_TO_FIND: Final = 2.0
"""For what only Temporal has, and a reader can do without."""


@dataclass(frozen=True)
class KnownRun:
    """A run as it stands: its execution in Temporal, which retention may have removed, and its row, which outlives that."""

    run_id: str
    execution: WorkflowExecutionDescription | None
    row: RunSummary | None

    @property
    def exists(self) -> bool:
        return self.execution is not None or self.row is not None

    @property
    def is_open(self) -> bool:
        return self.execution is not None and self.execution.status == WorkflowExecutionStatus.RUNNING

    @property
    def is_finished(self) -> bool:
        """Whether there is something to show. A run that was refused before it began left nothing, so it may be tried again."""
        return not self.is_open and self.row is not None

    @property
    def status(self) -> str:
        """In Ratchet's words. A row that says `running` beside a closed execution was cut off from outside."""
        if self.row is not None and (self.row.status in TERMINAL or self.is_open):
            return self.row.status
        if self.is_open:
            return "initialized"
        return "failed"


async def known_run(servers: Servers, run_id: str) -> KnownRun:
    """What is known of a run id, which may be nothing."""
    return KnownRun(run_id, await _execution(servers, run_id), await servers.reader.runs.progress(run_id))


async def existing_run(servers: Servers, run_id: str) -> KnownRun:
    """The run, or an error that suggests what was probably meant."""
    run = await known_run(servers, run_id)
    if not run.exists:
        raise unknown_run(run_id, await known_ids(servers))
    return run


@asynccontextmanager
async def reach_run(home: Path, run_id: str) -> AsyncIterator[tuple[Servers, KnownRun]]:
    """The servers and the run. Where there is no data yet, nothing is started just to find nothing."""
    if not has_data(home):
        raise unknown_run(run_id, [])
    async with reach_servers(home) as servers:
        yield servers, await existing_run(servers, run_id)


def unknown_run(run_id: str, ids: list[str]) -> CommandError:
    """There is no such run; the closest names are suggested."""
    close = difflib.get_close_matches(run_id, ids, n=3, cutoff=0.5)
    close += [known for known in ids if run_id and known.startswith(run_id) and known not in close][: 3 - len(close)]
    hint = f"did you mean {' or '.join(close)}?" if close else "`ratchet list` shows those there are"
    return CommandError(f"there is no run {run_id!r}; {hint}", facts={"close_matches": close})


async def unknown_entrant(servers: Servers, unknown: UnknownEntrant) -> CommandError:
    """There is no such run, or it has no such candidate."""
    run_id, candidate_id = unknown.run_id, unknown.candidate_id
    if candidate_id is None:
        return unknown_run(run_id, await known_ids(servers))
    return CommandError(f"{run_id} has no candidate {candidate_id!r}; `ratchet report {run_id} --format json` lists them")


async def known_ids(servers: Servers) -> list[str]:
    """Run ids, the newest first."""
    rows = await servers.reader.runs.page(limit=MOST_COMPARED)
    return [row.run_id for row in rows] + [run.run_id for run in await open_runs(servers) if run.row is None]


async def open_runs(servers: Servers) -> list[KnownRun]:
    """Runs that are not over. One that no worker has taken up yet has no row: Temporal knows it, the store does not."""
    found: list[KnownRun] = []
    try:
        async for execution in servers.client.list_workflows(f"WorkflowType='{WORKFLOW}' AND ExecutionStatus='Running'"):
            run = await known_run(servers, execution.id)
            if run.is_open:
                found.append(run)
    except RPCError:
        return found  # a server whose search is away still runs workflows
    return found


def first_execution(run: KnownRun) -> str | None:
    """The id that the server gave the first of a run's executions, which stays through continue-as-new."""
    if run.execution is None:
        return None
    return run.execution.raw_info.first_run_id or run.execution.run_id


async def memo_of(run: KnownRun) -> dict[str, Any]:
    """What whoever started the run says of it: where its spec is. It is hostile text, to be shown and never to be obeyed."""
    if run.execution is None:
        return {}
    try:
        noted = (await run.execution.memo()).get("ratchet")
    except Exception:  # anybody may have written it, in whatever form, or under a key that is gone
        return {}
    return dict(noted) if isinstance(noted, dict) else {}


def noted_as_written(text: str | None) -> dict[str, Any]:
    """What a memo says of a spec, comments and all, for people to read: Temporal keeps it as long as it keeps the run."""
    fits = text is not None and len(text.encode()) <= LONGEST_WRITTEN
    return {"written": text} if fits else {}


async def spec_as_written(run: KnownRun) -> str | None:
    """The spec that a run was started with, as its author wrote it, where Temporal still knows that."""
    written = (await memo_of(run)).get("written")
    return written if isinstance(written, str) and len(written.encode()) <= LONGEST_WRITTEN else None


async def written_spec(servers: Servers, run_id: str) -> str | None:
    """The spec of a run as its author wrote it; None also where Temporal does not answer, so that nobody waits for it."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS_TO_FIND):
            return await spec_as_written(await known_run(servers, run_id))
    except (RPCError, TimeoutError):
        return None


async def _execution(servers: Servers, run_id: str) -> WorkflowExecutionDescription | None:
    try:
        description = await servers.client.get_workflow_handle(run_id).describe()
    except RPCError as error:
        if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
            return None
        raise
    if description.workflow_type != WORKFLOW:
        raise CommandError(f"{run_id!r} is a {description.workflow_type}, not a run; `ratchet list` shows the runs")
    return description
