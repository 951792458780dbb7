"""The times up to which shared limits are used up. One row per limit, one statement per lease, and no lock beyond it.

The statement reads clock_timestamp() and not now(): what counts is when the row is ours, not when we began to wait for it.
"""

from __future__ import annotations

from datetime import timedelta

from store.connection import Database
from workflows.model.spec.limits import RateLimit

TIME_TO_CATCH_UP = timedelta(seconds=0.5)
"""Unused starts of so much time may be used together later, so that a late lease costs no throughput."""


class RateLimits:
    """Limits that workers share, of runs and of the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lease_starts(self, name: tuple[str, str], limit: RateLimit, calls: int, tokens: float, owed: float) -> float:
        """Reserve calls and tokens; in how many seconds the first call may start, below 0 when it might have already.

        What is owed are tokens that calls before took beyond their reservation, or below 0 what they left; it is settled first.
        """
        async with self._database.connection() as connection:
            waits = await connection.fetchval(
                """
                INSERT INTO rate_limits AS used (run_id, name, calls_until, tokens_until)
                VALUES ($1, $2, clock_timestamp() - $6::interval + $3::interval,
                                clock_timestamp() - $6::interval + $5::interval + $4::interval)
                ON CONFLICT (run_id, name) DO UPDATE SET
                    calls_until = greatest(used.calls_until, clock_timestamp() - $6::interval) + $3::interval,
                    tokens_until = greatest(used.tokens_until, clock_timestamp() - $6::interval) + $5::interval + $4::interval
                RETURNING extract(epoch FROM greatest(
                    CASE WHEN $3 > interval '0' THEN calls_until - $3 END,
                    CASE WHEN $4 > interval '0' THEN tokens_until - $4 END) - clock_timestamp())::float8
                """,
                *name,
                _time_of(calls, limit.requests_per_minute),
                _time_of(tokens, limit.tokens_per_minute),
                _time_of(owed, limit.tokens_per_minute),
                TIME_TO_CATCH_UP,
            )
            return float(waits or 0.0)


def _time_of(amount: float, per_minute: float | None) -> timedelta:
    """How long a limit takes to give so much; no time at all where there is no limit."""
    return timedelta(minutes=amount / per_minute) if per_minute else timedelta(0)
