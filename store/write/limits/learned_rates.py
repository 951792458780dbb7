"""What endpoints have taught, one row each, and the time up to which their starts are leased.

As with the limits that are set, clock_timestamp() and not now(): what counts is when the row is ours.
"""

from __future__ import annotations

from typing import Any

from store.connection import Database
from workflows.rules.learned_rate import CATCHING_UP, LONGEST_STEP, Endpoint, Learned, Throttle, after


class LearnedRates:
    """What endpoints have taught."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self, endpoint: Endpoint) -> Learned | None:
        async with self._database.connection() as connection:
            row = await connection.fetchrow("SELECT * FROM learned_rates WHERE base_url = $1 AND model = $2", *endpoint)
            return None if row is None else _learned(row)

    async def lease(self, endpoint: Endpoint, known: Learned, calls: int, refused: int) -> tuple[float, Learned | None]:
        """Reserve so many starts at the known rate; in how many seconds the first may be, below 0 when it might have been."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                """
                UPDATE learned_rates SET
                    calls_until = greatest(calls_until, clock_timestamp() - $7 * interval '1 s') + $3 * interval '1 s',
                    used = used + $5 * least(greatest(extract(epoch FROM clock_timestamp() - leased_at)::float8, 0), $8),
                    counted_seconds = $6 * counted_seconds
                        + least(greatest(extract(epoch FROM clock_timestamp() - leased_at)::float8, 0), $8),
                    calls_let_in = $6 * calls_let_in + $4,
                    leased_at = greatest(leased_at, clock_timestamp())
                WHERE base_url = $1 AND model = $2
                RETURNING *, extract(epoch FROM calls_until - clock_timestamp())::float8 - $3 AS wait
                """,
                *endpoint,
                calls / known.rate,
                float(calls - refused),
                known.climbs,
                known.kept,
                CATCHING_UP,
                LONGEST_STEP,
            )
            return (0.0, None) if row is None else (row["wait"], _learned(row))

    async def throttled(self, endpoint: Endpoint, throttle: Throttle) -> Learned:
        """What is known after a complaint. In a transaction, so that those of several workers are taken in one by one."""
        async with self._database.transaction() as connection:
            first = after(None, throttle, ahead=0.0, age=0.0, closed=throttle.retry_after)
            inserted = await connection.fetchval(
                "INSERT INTO learned_rates (base_url, model, revision, lowest, recovery,"
                " counted_seconds, calls_until, leased_at)"
                " SELECT $1, $2, $3, $4, $5, $6, opens, opens"
                " FROM (SELECT clock_timestamp() + $7 * interval '1 s' AS opens) closing"
                " ON CONFLICT DO NOTHING RETURNING true",
                *endpoint,
                first.revision,
                first.lowest,
                first.recovery,
                first.counted_seconds,
                throttle.retry_after,
            )
            if inserted:
                return first
            row = await connection.fetchrow(
                """
                SELECT rates.*, opens,
                       least(greatest(extract(epoch FROM time - leased_at)::float8, 0), $4) AS used_since,
                       greatest(extract(epoch FROM calls_until - time)::float8, 0) AS ahead,
                       extract(epoch FROM time - learned_at)::float8 AS age,
                       extract(epoch FROM opens - greatest(time, leased_at))::float8 AS closed
                FROM (SELECT * FROM learned_rates WHERE base_url = $1 AND model = $2 FOR UPDATE) rates
                CROSS JOIN LATERAL (SELECT clock_timestamp() AS time OFFSET 0) clock
                CROSS JOIN LATERAL (SELECT greatest(time, leased_at, time + $3 * interval '1 s') AS opens) closing
                """,
                *endpoint,
                throttle.retry_after,
                LONGEST_STEP,
            )
            assert row is not None
            known = _learned(row).used_by(-throttle.refused, row["used_since"])
            taught = after(known, throttle, ahead=row["ahead"], age=row["age"], closed=row["closed"])
            await connection.execute(
                """
                UPDATE learned_rates SET
                    learned_at = CASE WHEN revision = $3 THEN learned_at ELSE clock_timestamp() END,
                    revision = $3, lowest = $4, likely = $5, recovery = $6, used = $7, calls_let_in = $8, counted_seconds = $9,
                    calls_until = greatest(calls_until, $10), leased_at = $10
                WHERE base_url = $1 AND model = $2
                """,
                *endpoint,
                taught.revision,
                taught.lowest,
                taught.likely,
                taught.recovery,
                taught.used,
                taught.calls_let_in,
                taught.counted_seconds,
                row["opens"],
            )
            return taught


def _learned(row: Any) -> Learned:
    return Learned(
        row["revision"], row["lowest"], row["likely"], row["recovery"], row["used"], row["calls_let_in"], row["counted_seconds"]
    )
