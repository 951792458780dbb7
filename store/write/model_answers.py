"""Models' answers to requests for better texts: each is kept as it comes, and read by whoever asks the same."""

from __future__ import annotations

from dataclasses import dataclass

from store.budget_leases import LeaseBalance, LeaseKey
from store.connection import Connection, Database
from store.encoding import storable_text
from store.events import lock_run
from store.write.budgets import spend_unmetered, write_balance
from workflows.model.run.amounts import Amount


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """One answer, and which of a run's proposals paid for it."""

    round: int
    index: int
    text: str
    cut_off: bool
    """It ended before the model had finished."""
    tokens: int
    cost: float


async def _load(connection: Connection, run_id: str, request_hash: str) -> ModelAnswer | None:
    row = await connection.fetchrow(
        "SELECT round, index, answer, cut_off, tokens, cost FROM model_answers WHERE run_id = $1 AND request_hash = $2",
        run_id,
        request_hash,
    )
    return None if row is None else ModelAnswer(*row)


class ModelAnswers:
    """What models answered to requests, by the request's hash."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, run_id: str, request_hash: str) -> ModelAnswer | None:
        """What a model answered to a request that was paid for already."""
        async with self._database.connection() as connection:
            return await _load(connection, run_id, request_hash)

    async def keep(
        self, run_id: str, request_hash: str, answer: ModelAnswer, lease: tuple[LeaseKey, LeaseBalance] | None = None
    ) -> ModelAnswer:
        """Store an answer and count what it cost, unless the same was answered before; return the one that counts."""
        async with self._database.transaction() as connection:
            await lock_run(connection, run_id)
            new = await connection.fetchval(
                """
                INSERT INTO model_answers (run_id, request_hash, round, index, answer, cut_off, tokens, cost)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING true
                """,
                run_id,
                request_hash,
                answer.round,
                answer.index,
                storable_text(answer.text),
                answer.cut_off,
                answer.tokens,
                answer.cost,
            )
            if new and lease is None:
                await spend_unmetered(connection, run_id, Amount(tokens=answer.tokens, cost=answer.cost))
            if new:
                await connection.execute(
                    "UPDATE runs SET paid_tokens = paid_tokens + $2, paid_cost = paid_cost + $3 WHERE run_id = $1",
                    run_id,
                    answer.tokens,
                    answer.cost,
                )
            if lease is not None:
                await write_balance(connection, *lease)
            counts = await _load(connection, run_id, request_hash)
            assert counts is not None
            return counts
