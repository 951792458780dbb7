"""A real database that can be away: it refuses as many connections as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from store.connection import Connection, Database, StoreAway

_WITH_A_RUNS_ROWS = ("runs", "answers", "scores", "overlays", "datasets", "dataset_names", "learned_rates", "rate_limits")


class InterruptedDatabase(Database):
    """What fails is only the way to PostgreSQL."""

    refusals_left = 0
    """Connections."""
    refused_transactions_left = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        if self.refusals_left > 0:
            self.refusals_left -= 1
            raise StoreAway("connection refused")
        async with super().connection() as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        if self.refused_transactions_left > 0:
            self.refused_transactions_left -= 1
            raise StoreAway("connection refused")
        async with super().transaction() as connection:
            yield connection

    async def empty(self) -> None:
        """Take away what a test has stored; faster than a database of its own."""
        self.refusals_left = self.refused_transactions_left = 0
        async with self.connection() as connection:
            await connection.execute("; ".join(f"DELETE FROM {table}" for table in _WITH_A_RUNS_ROWS))

    @asynccontextmanager
    async def refusing_rows(self, table: str) -> AsyncIterator[None]:
        """A table takes nothing new: a store that refuses for good."""
        async with super().connection() as connection:
            await connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT full_up CHECK (false) NOT VALID")
            try:
                yield
            finally:
                await connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT full_up")

    @asynccontextmanager
    async def locked(self, *tables: str) -> AsyncIterator[None]:
        """Who writes to one of these tables waits."""
        async with super().transaction() as connection:
            await connection.execute(f"LOCK TABLE {', '.join(tables)} IN SHARE MODE")
            yield

    async def until_somebody_waits(self) -> None:
        async with asyncio.timeout(20), super().connection() as connection:
            while not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
                await asyncio.sleep(0.005)
