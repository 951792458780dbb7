"""Proposals: made once, read by every retry."""

from __future__ import annotations

from store.budget_leases import LeaseBalance, LeaseKey
from store.connection import Connection, Database
from store.encoding import from_json, optional_text, storable_json
from store.events import lock_run
from store.write.budgets import write_balance
from workflows.model.run.contract import Proposed


async def _load(connection: Connection, run_id: str, round_index: int, index: int) -> Proposed | None:
    row = await connection.fetchrow(
        "SELECT new_values, rationale, tokens, cost FROM proposals WHERE run_id = $1 AND round = $2 AND index = $3",
        run_id,
        round_index,
        index,
    )
    if row is None:
        return None
    return Proposed(values=from_json(row["new_values"]), rationale=row["rationale"], tokens=row["tokens"], cost=row["cost"])


class Proposals:
    """What proposers answered, by round and place."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, run_id: str, round_index: int, index: int) -> Proposed | None:
        """A proposer's answer that was paid for already."""
        async with self._database.connection() as connection:
            return await _load(connection, run_id, round_index, index)

    async def load_of(self, retry_of: str, round_index: int, index: int, parent_hash: str) -> Proposed | None:
        """What another run was answered in this place, if it asked about the same configuration; it costs nothing again."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT new_values, rationale FROM proposals"
                " WHERE run_id = $1 AND round = $2 AND index = $3 AND parent_hash = $4",
                retry_of,
                round_index,
                index,
                parent_hash,
            )
            return None if row is None else Proposed(values=from_json(row["new_values"]), rationale=row["rationale"])

    async def store(
        self,
        run_id: str,
        round_index: int,
        index: int,
        proposed: Proposed,
        parent_hash: str = "",
        lease: tuple[LeaseKey, LeaseBalance] | None = None,
    ) -> Proposed:
        """Store the proposal, unless an earlier one is there; return the one that counts. Its answers are paid for already."""
        async with self._database.transaction() as connection:
            await lock_run(connection, run_id)
            await connection.execute(
                """
                INSERT INTO proposals (run_id, round, index, new_values, rationale, tokens, cost, parent_hash)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING
                """,
                run_id,
                round_index,
                index,
                storable_json(proposed.values),
                optional_text(proposed.rationale),
                proposed.tokens,
                proposed.cost,
                parent_hash,
            )
            if lease is not None:
                await write_balance(connection, *lease)
            counts = await _load(connection, run_id, round_index, index)
            assert counts is not None
            return counts
