"""Conversations as they come: turns of a model, and calls of tools, kept until their answer is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from store.budget_leases import LeaseBalance, LeaseKey
from store.connection import Connection, Database
from store.encoding import from_json
from store.encrypted_contents import contents_of
from store.write.limits.budgets import write_balance
from workflows.model.suite import EvaluationSuite, Outcome, UnscoredAnswer
from workflows.model.trial import ShardInput


class AnswerKey(NamedTuple):
    """What an answer is going to be stored by."""

    config_hash: str
    target: str
    run_id: str
    item_hash: str
    replicate: int


@dataclass(slots=True)
class StoredTurn:
    """One turn with what came of its calls so far."""

    content: Any
    tokens: int
    cost: float
    results: dict[int, Any] = field(default_factory=dict)
    """Of calls that are over, by their place in the turn."""


class Turns:
    """Turns of conversations that have no answer yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(
        self, shard: ShardInput, suite: EvaluationSuite, pairs: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], list[StoredTurn]]:
        """What is kept of the conversations about these samples and replicates, in order."""
        async with self._database.connection() as connection:
            return await _load(connection, shard.config_hash, suite.target_fingerprint, shard.run_id, pairs)

    async def keep(
        self,
        key: AnswerKey,
        turn: int,
        content: Any,
        tokens: int,
        cost: float,
        lease: tuple[LeaseKey, LeaseBalance] | None = None,
    ) -> StoredTurn:
        """Keep a turn, with what it took out of the budget, and return it; where another attempt was faster, that one's."""
        opened = self._database.connection if lease is None else self._database.transaction
        async with opened() as connection:
            stored = await connection.fetchval(
                """
                INSERT INTO turns (config_hash, target, run_id, item_hash, replicate, turn, tokens, cost, content)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING true
                """,
                *key,
                turn,
                tokens,
                cost,
                contents_of(connection).json(content),
            )
            if lease is not None:
                await write_balance(connection, *lease)
            mine = StoredTurn(content, tokens, cost)
            if stored:
                return mine
            found = await _load(connection, *key[:3], [(key.item_hash, key.replicate)])
            turns = found.get((key.item_hash, key.replicate), [])
            return turns[turn] if turn < len(turns) else mine  # its answer may be stored meanwhile

    async def begin_call(self, key: AnswerKey, turn: int, call: int, attempt: str) -> bool:
        """Note that a call with effects is about to be made; False when another attempt has noted that before."""
        async with self._database.connection() as connection:
            by = await connection.fetchval(
                """
                INSERT INTO tool_calls (config_hash, target, run_id, item_hash, replicate, turn, call, begun_by)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                ON CONFLICT (config_hash, target, run_id, item_hash, replicate, turn, call)
                    DO UPDATE SET begun_by = coalesce(tool_calls.begun_by, excluded.begun_by)
                RETURNING begun_by
                """,
                *key,
                turn,
                call,
                attempt,
            )
            return bool(by == attempt)

    async def keep_result(self, key: AnswerKey, turn: int, call: int, result: Any) -> Any:
        """Keep what came of a call, and return it; where another attempt was faster, that one's."""
        async with self._database.connection() as connection:
            stored = await connection.fetchval(
                """
                INSERT INTO tool_calls (config_hash, target, run_id, item_hash, replicate, turn, call, result)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                ON CONFLICT (config_hash, target, run_id, item_hash, replicate, turn, call)
                    DO UPDATE SET result = coalesce(tool_calls.result, excluded.result)
                RETURNING result
                """,
                *key,
                turn,
                call,
                contents_of(connection).json(result),
            )
            return from_json(stored)


async def forget_turns(
    connection: Connection, shard: ShardInput, suite: EvaluationSuite, answers: Sequence[Outcome | UnscoredAnswer]
) -> None:
    """Delete the conversations of answers that are stored: these have all of them in their traces."""
    if not suite.target.keeps_turns or not answers:
        return
    for table in ("turns", "tool_calls"):
        await connection.execute(
            f"DELETE FROM {table} t USING unnest($4::text[], $5::int[]) AS given (item_hash, replicate)"  # noqa: S608
            " WHERE t.config_hash = $1 AND t.target = $2 AND t.run_id = $3 AND t.item_hash = given.item_hash"
            " AND t.replicate = given.replicate",
            shard.config_hash,
            suite.target_fingerprint,
            shard.run_id,
            [answer.item_hash for answer in answers],
            [answer.replicate for answer in answers],
        )


async def remove_turns(connection: Connection, run_id: str) -> None:
    """Delete what is left of a run's conversations: those that never came to an answer."""
    await connection.execute("DELETE FROM turns WHERE run_id = $1", run_id)
    await connection.execute("DELETE FROM tool_calls WHERE run_id = $1", run_id)


async def _load(
    connection: Connection, config_hash: str, target: str, run_id: str, pairs: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], list[StoredTurn]]:
    key = config_hash, target, run_id, [item_hash for item_hash, _ in pairs], [replicate for _, replicate in pairs]
    of_pairs = (
        "JOIN unnest($4::text[], $5::int[]) AS given (item_hash, replicate) USING (item_hash, replicate)"
        " WHERE t.config_hash = $1 AND t.target = $2 AND t.run_id = $3"
    )
    found: dict[tuple[str, int], list[StoredTurn]] = {}
    rows = await connection.fetch(
        f"SELECT item_hash, replicate, turn, content, tokens, cost FROM turns t {of_pairs} ORDER BY turn",  # noqa: S608
        *key,
    )
    for row in rows:
        turns = found.setdefault((row["item_hash"], row["replicate"]), [])
        if row["turn"] == len(turns):
            turns.append(StoredTurn(from_json(row["content"]), row["tokens"], row["cost"]))
    results = await connection.fetch(
        f"SELECT item_hash, replicate, turn, call, result FROM tool_calls t {of_pairs} AND result IS NOT NULL",  # noqa: S608
        *key,
    )
    for row in results:
        turns = found.get((row["item_hash"], row["replicate"]), [])
        if row["turn"] < len(turns):
            turns[row["turn"]].results[row["call"]] = from_json(row["result"])
    return found
