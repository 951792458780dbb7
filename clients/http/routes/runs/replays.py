"""Going through a finished run again: what follows from its answers, and where the store says otherwise."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from clients.http.backend import RunId, Served
from clients.http.errors import Refused, responses
from clients.http.missing_run import why_unknown
from clients.runs.lookup import TERMINAL
from ratchet._frozen import Payload
from store.connection import Database
from store.read.reader import StoreReader
from store.read.replay_records import RecordedOutcomes

router = APIRouter(prefix="/v1/private/optimizations/{optimization_id}", tags=["runs"])

_ONE_AT_A_TIME = asyncio.Semaphore(1)
"""It reads every answer of a run."""


class Differing(Payload):
    """One value that does not follow from the others."""

    field: str
    stored: Any = None
    recomputed: Any = None


class Replay(Payload):
    """A run, gone through again by the rules it used."""

    optimization_id: str
    differences: tuple[Differing, ...]
    """None: everything that the run decided follows from what is stored of it."""
    trials: int
    answers: int
    comparisons: int
    looks: int
    not_recomputed: tuple[str, ...]
    """What was taken as it is stored, and why."""


@router.get("/replay", operation_id="replayOptimization", responses=responses(404, 409))
async def replay_optimization(run_id: RunId, backend: Served) -> Replay:
    """Recompute every score, comparison, verdict, decision and stop from the stored answers. Large runs take a moment."""
    async with _ONE_AT_A_TIME:
        row = await backend.reader.runs.load(run_id)
        if row is None:
            raise await why_unknown(backend, run_id)
        if row.status not in TERMINAL:
            raise Refused(409, f"{run_id} is {row.status}; only a finished run can be gone through again")
        replayed = await asyncio.to_thread(lambda: asyncio.run(_replayed(backend.database, run_id)))
    if replayed is None:
        raise await why_unknown(backend, run_id)
    return replayed


async def _replayed(of: Database, run_id: str) -> Replay | None:
    """In a thread with a loop and connections of its own: what is read is added up and compared as it comes."""
    from clients.replay.from_store import replay_store

    database = await Database.open(of.url, most_connections=2, keys=of.keys)
    try:
        report = await StoreReader(database).runs.report(run_id)
        if report is None:
            return None
        found, gone = await replay_store(report, RecordedOutcomes(database))
    finally:
        await database.close()
    return Replay(
        optimization_id=run_id,
        differences=tuple(Differing(field=one.field, stored=one.stored, recomputed=one.recomputed) for one in found),
        trials=gone.trials,
        answers=gone.answers,
        comparisons=gone.comparisons,
        looks=gone.looks,
        not_recomputed=tuple(gone.not_recomputed),
    )
