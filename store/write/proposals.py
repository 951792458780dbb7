"""Proposals and what models answered when asked for them: paid for once, read by every retry and by whoever asks the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from store.budget_leases import LeaseBalance, LeaseKey
from store.connection import Connection, Database
from store.encoding import from_json
from store.encrypted_contents import contents_of
from store.events import lock_run
from store.write.limits.budgets import spend_unmetered, write_balance
from workflows.model.run.amounts import Amount
from workflows.model.run.contract import Proposed


@dataclass(frozen=True, slots=True)
class ProposalOrigin:
    """Where a proposal comes from, for people who look at it."""

    parent_hash: str = ""
    """The configuration that it starts from."""
    proposed_hash: str | None = None
    """Of the whole configuration that it makes."""
    asked_of: str | None = None
    asked: Any = None
    """What a plug-in was called with."""


class Proposals:
    """What proposers answered, by round and place."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, run_id: str, round_index: int, index: int) -> Proposed | None:
        """A proposer's answer that was paid for already."""
        async with self._database.connection() as connection:
            return await _load_proposal(connection, run_id, round_index, index)

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
        origin: ProposalOrigin = ProposalOrigin(),
        lease: tuple[LeaseKey, LeaseBalance] | None = None,
    ) -> Proposed:
        """Store the proposal, unless an earlier one is there; return the one that counts. Its answers are paid for already."""
        async with self._database.transaction() as connection:
            await lock_run(connection, run_id)
            contents = contents_of(connection)
            await connection.execute(
                """
                INSERT INTO proposals (run_id, round, index, new_values, rationale, tokens, cost, parent_hash, proposed_hash,
                                       asked_of, asked)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING
                """,
                run_id,
                round_index,
                index,
                contents.json(proposed.values),
                contents.optional_text(proposed.rationale),
                proposed.tokens,
                proposed.cost,
                origin.parent_hash,
                origin.proposed_hash,
                origin.asked_of,
                contents.optional_json(origin.asked),
            )
            if lease is not None:
                await write_balance(connection, *lease)
            counts = await _load_proposal(connection, run_id, round_index, index)
            assert counts is not None
            return counts

    async def store_configurations(self, run_id: str, configurations: Mapping[str, Any]) -> None:
        """Store whole configurations that were proposed, by their hashes, for people who look at those that were kept out."""
        async with self._database.connection() as connection:
            contents = contents_of(connection)
            await connection.executemany(
                "INSERT INTO proposed_configurations (run_id, proposed_hash, configuration) VALUES ($1, $2, $3)"
                " ON CONFLICT DO NOTHING",
                [(run_id, proposed_hash, contents.json(each)) for proposed_hash, each in configurations.items()],
            )


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
    asked_of: str | None = field(default=None, compare=False)
    """The model, or the type of the activity. This and the next are only written, for people who look at the run."""
    asked: Any = field(default=None, compare=False)
    cached_tokens: int = 0
    """Of the tokens, those that came from the provider's cache."""


class ModelAnswers:
    """What models answered to requests, by the request's hash."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, run_id: str, request_hash: str) -> ModelAnswer | None:
        """What a model answered to a request that was paid for already."""
        async with self._database.connection() as connection:
            return await _load_answer(connection, run_id, request_hash)

    async def keep(
        self, run_id: str, request_hash: str, answer: ModelAnswer, lease: tuple[LeaseKey, LeaseBalance] | None = None
    ) -> ModelAnswer:
        """Store an answer and count what it cost, unless the same was answered before; return the one that counts."""
        async with self._database.transaction() as connection:
            await lock_run(connection, run_id)
            new = await connection.fetchval(
                """
                INSERT INTO model_answers (run_id, request_hash, round, index, answer, cut_off, tokens, cost,
                                           cached_tokens, asked_of, asked)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING RETURNING true
                """,
                run_id,
                request_hash,
                answer.round,
                answer.index,
                contents_of(connection).text(answer.text),
                answer.cut_off,
                answer.tokens,
                answer.cost,
                answer.cached_tokens or None,
                answer.asked_of,
                contents_of(connection).optional_json(answer.asked),
            )
            if new and lease is None:
                await spend_unmetered(connection, run_id, Amount(tokens=answer.tokens, cost=answer.cost))
            if new:
                await connection.execute(
                    "UPDATE runs SET paid_tokens = paid_tokens + $2, paid_cost = paid_cost + $3,"
                    " cached_tokens = cached_tokens + $4 WHERE run_id = $1",
                    run_id,
                    answer.tokens,
                    answer.cost,
                    answer.cached_tokens,
                )
            if lease is not None:
                await write_balance(connection, *lease)
            counts = await _load_answer(connection, run_id, request_hash)
            assert counts is not None
            return counts


async def _load_proposal(connection: Connection, run_id: str, round_index: int, index: int) -> Proposed | None:
    row = await connection.fetchrow(
        "SELECT new_values, rationale, tokens, cost FROM proposals WHERE run_id = $1 AND round = $2 AND index = $3",
        run_id,
        round_index,
        index,
    )
    if row is None:
        return None
    return Proposed(values=from_json(row["new_values"]), rationale=row["rationale"], tokens=row["tokens"], cost=row["cost"])


async def _load_answer(connection: Connection, run_id: str, request_hash: str) -> ModelAnswer | None:
    row = await connection.fetchrow(
        "SELECT round, index, answer, cut_off, tokens, cost FROM model_answers WHERE run_id = $1 AND request_hash = $2",
        run_id,
        request_hash,
    )
    return None if row is None else ModelAnswer(*row)
