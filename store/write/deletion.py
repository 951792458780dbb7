"""Deleting a run, with everything that belongs to it alone."""

from __future__ import annotations

from store.connection import Connection


async def delete_run(connection: Connection, run_id: str) -> bool:
    """Delete rows, outcomes and events of a run, and overlays that no other run tried; whether there was such a run.

    Datasets stay: they are shared, and have a deletion of their own. So do answers that other runs have copied.
    """
    baseline = await connection.fetchval("SELECT baseline_config_hash FROM runs WHERE run_id = $1 FOR UPDATE", run_id)
    if baseline is None:
        return False
    # Outcomes have no foreign key to the run, which would cost each of them a lookup when it is stored.
    tried = await connection.fetch(
        """
        WITH answers AS (DELETE FROM outcomes WHERE run_id = $1 RETURNING config_hash)
        SELECT config_hash FROM answers UNION SELECT config_hash FROM candidates WHERE run_id = $1
        """,
        run_id,
    )
    await connection.execute("DELETE FROM rate_limits WHERE run_id = $1", run_id)
    await connection.execute("DELETE FROM runs WHERE run_id = $1", run_id)
    await connection.execute(
        """
        DELETE FROM overlays WHERE config_hash = ANY($1)
            AND NOT EXISTS (SELECT FROM candidates c WHERE c.config_hash = overlays.config_hash)
            AND NOT EXISTS (SELECT FROM runs r WHERE r.baseline_config_hash = overlays.config_hash)
            AND NOT EXISTS (SELECT FROM releases l WHERE overlays.config_hash IN (l.overlay_hash, l.base_hash))
        """,
        [baseline, *(row["config_hash"] for row in tried)],
    )
    return True
