"""What the janitor knows of the store, and what it removes there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from store.connection import Connection
from store.events import TERMINAL


@dataclass(frozen=True, slots=True)
class RunRow:
    """How a run stands by its row."""

    run_id: str
    finished: bool
    last_change: datetime


async def run_rows(connection: Connection, run_ids: Sequence[str]) -> dict[str, RunRow]:
    """The rows of those runs that have one."""
    rows = await connection.fetch(
        "SELECT run_id, status, coalesce(finished_at, updated_at) AS at FROM runs WHERE run_id = ANY($1)", list(run_ids)
    )
    return {row["run_id"]: RunRow(row["run_id"], row["status"] in TERMINAL, row["at"]) for row in rows}


async def runs_with(connection: Connection, config_hash: str) -> list[str]:
    """Every run that tried a configuration, or began with it."""
    rows = await connection.fetch(
        "SELECT run_id FROM candidates WHERE config_hash = $1 UNION SELECT run_id FROM runs WHERE baseline_config_hash = $1",
        config_hash,
    )
    return [row["run_id"] for row in rows]


async def awaits_release(connection: Connection, prompt: str, overlay_hash: str) -> bool:
    """Whether an undecided release of a prompt is about this."""
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM releases WHERE prompt = $1 AND decided_at IS NULL AND $2 IN (overlay_hash, base_hash))",
        prompt,
        overlay_hash,
    )
    return found


async def remove_overlays(connection: Connection, before: datetime) -> int:
    """Remove configurations that no candidate, run, release or answer refers to."""
    removed = await connection.execute(
        """
        DELETE FROM overlays o WHERE created_at < $1
            AND NOT EXISTS (SELECT FROM candidates c WHERE c.config_hash = o.config_hash)
            AND NOT EXISTS (SELECT FROM runs r WHERE r.baseline_config_hash = o.config_hash)
            AND NOT EXISTS (SELECT FROM releases l WHERE o.config_hash IN (l.overlay_hash, l.base_hash))
            AND NOT EXISTS (SELECT FROM outcomes a WHERE a.config_hash = o.config_hash)
        """,
        before,
    )
    return int(removed.rpartition(" ")[2])
